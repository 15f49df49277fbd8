//! Times as clients read them.

use std::time::SystemTime;

/// RFC 3339 in UTC with microseconds, as Ironic's clients expect it; a time that no calendar holds is left out.
pub(crate) fn text(time: SystemTime) -> Option<String> {
    let time = jiff::Timestamp::try_from(time).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_is_rfc_3339_in_utc() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_000_000_000_250_000);
        assert_eq!(text(time).unwrap(), "2001-09-09T01:46:40.250000+00:00");
        assert_eq!(
            text(SystemTime::UNIX_EPOCH).unwrap(),
            "1970-01-01T00:00:00.000000+00:00"
        );
    }
}
