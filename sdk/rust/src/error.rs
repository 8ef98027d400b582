use crate::Value;

/// What kind of failure an error is; the host decides by it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Timeout,
    Unavailable,
    RateLimited,
    Quota,
    Unauthorized,
    ApiError,
    Validation,
    Truncated,
    Refused,
    InvalidInput,
    Internal,
}

const NAMES: [(Class, &str); 11] = [
    (Class::Timeout, "timeout"),
    (Class::Unavailable, "unavailable"),
    (Class::RateLimited, "rate_limited"),
    (Class::Quota, "quota"),
    (Class::Unauthorized, "unauthorized"),
    (Class::ApiError, "api_error"),
    (Class::Validation, "validation"),
    (Class::Truncated, "truncated"),
    (Class::Refused, "refused"),
    (Class::InvalidInput, "invalid_input"),
    (Class::Internal, "internal"),
];

impl Class {
    /// The spelling in JSON.
    pub fn as_str(self) -> &'static str {
        NAMES.iter().find(|(c, _)| *c == self).map_or("internal", |(_, name)| name)
    }

    /// The class with this spelling; `Internal` for one that a step cannot return.
    fn of(name: &str) -> Class {
        NAMES.iter().find(|(_, n)| *n == name).map_or(Class::Internal, |(c, _)| *c)
    }
}

/// A failure as data. Empty fields are not sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    pub class: Class,
    /// Free, for people and flows: "context_length".
    pub code: String,
    /// For people.
    pub message: String,
    /// A JSON Pointer into the input.
    pub path: String,
    /// A floor under the delay before the next attempt.
    pub retry_after_ms: u64,
}

impl Error {
    pub fn new(class: Class, message: impl Into<String>) -> Error {
        Error { class, code: String::new(), message: message.into(), path: String::new(), retry_after_ms: 0 }
    }

    /// The input is wrong at a JSON Pointer; trying again cannot help.
    pub fn invalid_input(path: impl Into<String>, message: impl Into<String>) -> Error {
        Error { path: path.into(), ..Error::new(Class::InvalidInput, message) }
    }

    /// The error of a reply.
    pub(crate) fn of_reply(error: &Value) -> Error {
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_string();
        Error {
            class: Class::of(&text("class")),
            code: text("code"),
            message: text("message"),
            path: text("path"),
            retry_after_ms: error["retry_after_ms"].as_i64().map_or(0, |n| n.max(0) as u64),
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.class.as_str())?;
        if !self.code.is_empty() {
            write!(f, "/{}", self.code)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Error {}

impl From<Error> for Value {
    fn from(e: Error) -> Value {
        let mut members = vec![("class".to_string(), e.class.as_str().into())];
        for (name, text) in [("code", e.code), ("message", e.message), ("path", e.path)] {
            if !text.is_empty() {
                members.push((name.to_string(), text.into()));
            }
        }
        if e.retry_after_ms > 0 {
            members.push(("retry_after_ms".to_string(), (e.retry_after_ms.min(i64::MAX as u64) as i64).into()));
        }
        Value::Object(members)
    }
}
