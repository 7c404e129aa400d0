import React, { useState } from 'react';
import { Button } from '@/components/button';

interface Props {
  label: string;
  start?: number;
}

/** Counts clicks. */
export function Counter({ label, start = 0 }: Props) {
  const [count, setCount] = useState(start);
  return (
    <Button onClick={() => setCount(count + 1)}>
      {label}: {count}
    </Button>
  );
}

export const Title: React.FC<{ text: string }> = ({ text }) => {
  return <h1 className="title">{text}</h1>;
};

export class Boundary extends React.Component<Props> {
  state = { failed: false };

  componentDidCatch(error: Error) {
    this.setState({ failed: true });
    console.error(error);
  }

  render() {
    return this.state.failed ? <Title text="failed" /> : this.props.children;
  }
}
