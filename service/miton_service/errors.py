"""The service's exceptions. Each becomes an answer in OpenAI's error shape, or a line of the command line."""

from __future__ import annotations


class ServiceError(Exception):
    """Base of every error the service raises on purpose; the message says what to do."""


class SettingsError(ServiceError):
    """A setting has a value the service cannot start with."""


class ApiError(ServiceError):
    """An HTTP answer other than success: status, and OpenAI's error fields."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.type, self.code, self.param = status, message, type, code, param

    def body(self) -> dict[str, object]:
        """OpenAI's error object."""
        return {"error": {"message": self.message, "type": self.type, "code": self.code, "param": self.param}}
