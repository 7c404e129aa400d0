import type { Request } from './request';
import { Response as Reply, send } from "./response/index";
import * as fs from 'fs';

export interface Shape {
  readonly name: string;
  area(): number;
}

export type Point = { x: number; y: number };

export enum Colour {
  Red = 'red',
  Green = 'green',
}

function sealed(constructor: Function) {
  Object.seal(constructor);
}

@sealed
export abstract class Circle implements Shape {
  readonly name = 'circle';
  private radius: number;

  constructor(radius: number) {
    this.radius = radius;
  }

  area(): number {
    return Math.PI * this.radius ** 2;
  }

  abstract describe(): string;
}

export function handle<T extends Request>(request: T): Promise<Reply>;
export function handle(request: Request): Promise<Reply> {
  fs.accessSync('.');
  return send(request);
}

export const scale = (point: Point, by: number): Point => ({
  x: point.x * by,
  y: point.y * by,
});

namespace Geometry {
  export function distance(a: Point, b: Point): number {
    return Math.hypot(a.x - b.x, a.y - b.y);
  }
}

declare module 'untyped' {
  export function anything(): unknown;
}
