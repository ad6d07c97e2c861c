//! Answers that are no review: HTTP errors with a Status as their body.
//!
//! The API server shows the user the `message` of such a body; any other body is lost. A denial never comes this way.

use std::fmt;

use actix_web::{
    HttpResponse, HttpResponseBuilder, ResponseError,
    http::{StatusCode, header},
};

use super::judge::Unavailable;
use crate::review::{ParseReviewError, Status};

/// The longest text of a refusal, in bytes.
const LONGEST: usize = 1024;

/// A request that gets no review as its answer.
#[derive(Debug)]
pub struct Refusal {
    /// Why, in the words of the metric.
    pub reason: Reason,
    message: String,
    /// Whether the API server shall repeat the call. It does so by itself, ten times, and then shows the message; but
    /// where the webhook's timeout comes first, "context deadline exceeded" in its place. So only where a cure within
    /// seconds is likely. docs/api-server.md names the tests.
    retry_soon: bool,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The body carries no review.
    Unreadable,
    /// The body did not come in time.
    Slow,
    /// No such path.
    Path,
    /// Not a POST.
    Method,
    /// The body is too large.
    Size,
    /// The body is not plain JSON.
    MediaType,
    /// Too many requests, or too many bytes of them, are here already.
    Full,
    /// There is no verdict: the index is not complete, or a read that it needs failed.
    Unavailable,
    /// A defect of this program.
    Panic,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Unreadable,
        Self::Slow,
        Self::Path,
        Self::Method,
        Self::Size,
        Self::MediaType,
        Self::Full,
        Self::Unavailable,
        Self::Panic,
    ];

    /// The name in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Slow => "slow",
            Self::Path => "path",
            Self::Method => "method",
            Self::Size => "size",
            Self::MediaType => "media_type",
            Self::Full => "full",
            Self::Unavailable => "unavailable",
            Self::Panic => "panic",
        }
    }

    /// The HTTP code, and the reason as `meta/v1` names it.
    fn status(self) -> (StatusCode, &'static str) {
        match self {
            Self::Unreadable => (StatusCode::BAD_REQUEST, "BadRequest"),
            Self::Slow => (StatusCode::REQUEST_TIMEOUT, "Timeout"),
            Self::Path => (StatusCode::NOT_FOUND, "NotFound"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            Self::Size => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            Self::MediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType"),
            Self::Full | Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            Self::Panic => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        }
    }
}

impl Refusal {
    /// A refusal with a text for people, which may hold what a user wrote.
    #[must_use]
    pub fn new(reason: Reason, message: &str) -> Self {
        Self { reason, message: one_line(message), retry_soon: reason == Reason::Full }
    }
}

impl From<ParseReviewError> for Refusal {
    fn from(error: ParseReviewError) -> Self {
        Self::new(Reason::Unreadable, &crate::text::chain(&error))
    }
}

impl From<Unavailable> for Refusal {
    fn from(Unavailable { message, retry_soon }: Unavailable) -> Self {
        Self { retry_soon, ..Self::new(Reason::Unavailable, &message) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl ResponseError for Refusal {
    fn status_code(&self) -> StatusCode {
        self.reason.status().0
    }

    fn error_response(&self) -> HttpResponse {
        let (code, reason) = self.reason.status();
        let mut response = HttpResponseBuilder::new(code);
        response.insert_header(header::ContentType::json());
        if self.reason == Reason::Method {
            response.insert_header((header::ALLOW, "POST"));
        }
        if self.retry_soon {
            response.insert_header((header::RETRY_AFTER, "1"));
        }
        response.body(Status::failure(code.as_u16(), reason, self.message.clone()).to_json())
    }
}

/// Text that may hold what a user wrote, as one line of bounded length: control characters, line ends and direction
/// marks are escaped.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        // Quotes stay as they are; what Debug escapes beyond them cannot be printed, or changes how others print.
        if c == '"' || c == '\'' || c == '\\' {
            line.push(c);
        } else {
            line.extend(c.escape_debug());
        }
        if line.len() > LONGEST {
            line.truncate(line.floor_char_boundary(LONGEST - 3));
            line.push_str("...");
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn a_users_text_stays_in_its_line() {
        assert_eq!(one_line("a \"b\" \\ 'c' \n\x1b[31m\u{202e}ä"), "a \"b\" \\ 'c' \\n\\u{1b}[31m\\u{202e}ä");
        let long = one_line(&"ä".repeat(2000));
        assert!(long.len() <= 1024 && long.ends_with("ä..."), "{long}");
    }
}
