//! How long the API server still waits for an answer.
//!
//! It says so in `?timeout=`, a Go duration: the remaining time, rounded up to a whole second.

use std::time::Duration;

/// Without a timeout, or with one that means nothing: the default of `timeoutSeconds`.
const DEFAULT: Duration = Duration::from_secs(10);

/// The most that `timeoutSeconds` can be; whoever says more is not the API server.
const LONGEST: Duration = Duration::from_secs(30);

/// The time in which an answer has to leave here: what the API server waits, less a margin. An answer that comes
/// too late is a failed call without a reason, so it is better to say in time that there will be none.
#[must_use]
pub fn budget(query: &str) -> Duration {
    let timeout = query.split('&').find_map(|pair| pair.strip_prefix("timeout=")).and_then(duration);
    let timeout = timeout.filter(|timeout| !timeout.is_zero()).unwrap_or(DEFAULT).min(LONGEST);
    // A second for the rounding up, but half of a short time must be left to work in.
    let rounding = Duration::from_secs(1).min(timeout / 2);
    timeout - rounding.max(timeout / 10)
}

/// Reads a Go duration such as `10s`, `1m30s`, `1.5s` or `500ms`; `None` if it is none, or negative.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (value, tail) = rest.split_at(number);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let seconds = match unit {
            "ns" => 1e-9,
            // The first is the micro sign, the second the Greek letter; Go reads both, here as a query writes them.
            "us" | "µs" | "μs" | "%C2%B5s" | "%CE%BCs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(value.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::{budget, duration};
    use std::time::Duration;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let cases = [
            ("10s", Some(10_000)),
            ("1m30s", Some(90_000)),
            ("500ms", Some(500)),
            ("1.5s", Some(1_500)),
            ("2h", Some(7_200_000)),
            ("1h0m0.25s", Some(3_600_250)),
            ("1000us", Some(1)),
            ("1000000ns", Some(1)),
            ("0s", Some(0)),
            ("", None),
            ("10", None),
            ("s", None),
            ("-1s", None),
            ("10s5", None),
            ("1.2.3s", None),
            ("10 s", None),
            ("1d", None),
            ("1e400s", None),
            ("99999999999999999999h", None),
        ];
        for (text, millis) in cases {
            assert_eq!(duration(text), millis.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn the_budget_is_the_timeout_less_a_margin() {
        let cases = [
            ("timeout=10s", 9_000),
            ("a=b&timeout=30s", 27_000),
            ("timeout=2s", 1_000),
            ("timeout=1s", 500),
            ("timeout=500ms", 250),
            ("timeout=2m", 27_000),
            ("", 9_000),
            ("timeout=0s", 9_000),
            ("timeout=soon", 9_000),
            ("timeout=-5s", 9_000),
            ("nottimeout=1s", 9_000),
        ];
        for (query, millis) in cases {
            assert_eq!(budget(query), Duration::from_millis(millis), "{query:?}");
        }
    }
}
