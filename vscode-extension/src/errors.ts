// What can go wrong between the extension and the service, each with what the user can do about it.

export type FailureKind =
  | 'unreachable' // nothing answers at the address
  | 'foreign' // something answers, and it is not Miton
  | 'unauthorised' // the token is missing or wrong
  | 'loading' // the model is not loaded yet
  | 'failed' // the service told that it cannot work
  | 'interrupted' // the connection broke in the middle of an answer
  | 'refused'; // this request was not accepted (400, 403, 404, 413)

export class ServiceError extends Error {
  override readonly name = 'ServiceError';

  constructor(
    readonly kind: FailureKind,
    message: string,
    readonly code = '',
  ) {
    super(message);
  }
}

export class Cancelled extends Error {
  override readonly name = 'Cancelled';

  constructor() {
    super('Cancelled');
  }
}

/** The failure that an HTTP answer with an error status means; `body` is OpenAI's error object or anything. */
export function failureOf(status: number, body: string): ServiceError {
  const { message, code } = errorObject(body);
  if (status === 401) return new ServiceError('unauthorised', message ?? 'The service asks for a token.', code);
  if (message === undefined) {
    return new ServiceError('foreign', `The address answers, but not as Miton does (HTTP ${status}).`);
  }
  if (status === 503 && code !== 'load_failed') return new ServiceError('loading', message, code);
  return new ServiceError(status >= 500 ? 'failed' : 'refused', message, code);
}

function errorObject(body: string): { message?: string; code: string } {
  try {
    const parsed: unknown = JSON.parse(body);
    const error = (parsed as { error?: { message?: unknown; code?: unknown } } | null)?.error;
    if (typeof error?.message === 'string') {
      return { message: error.message, code: typeof error.code === 'string' ? error.code : '' };
    }
  } catch {
    // Not JSON: not our service.
  }
  return { code: '' };
}
