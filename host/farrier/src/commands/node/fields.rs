//! `KEY=VALUE` arguments: a value that parses as JSON is JSON, anything else is text.

use serde_json::Value;

/// One `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) key: String,
    pub(super) value: Value,
}

impl std::str::FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
        if key.is_empty() || key.contains('/') {
            return Err("the key before `=` is empty or holds a `/`".to_owned());
        }
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        Ok(Self {
            key: key.to_owned(),
            value,
        })
    }
}

/// All of them as one object.
pub(super) fn object(fields: Vec<Field>) -> Value {
    fields.into_iter().map(|field| (field.key, field.value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_json_where_they_parse_as_json_and_text_elsewhere() {
        let field = |text: &str| text.parse::<Field>();
        assert_eq!(field("memory_mb=4096").unwrap().value, 4096);
        assert_eq!(field("image=http://h/a=b").unwrap().value, "http://h/a=b");
        assert!(field("novalue").is_err() && field("=x").is_err() && field("a/b=x").is_err());
    }
}
