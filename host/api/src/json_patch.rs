//! JSON patches (RFC 6902) with the operations that Ironic takes: `add`, `replace`, `remove`. Every refusal names the pointer.

use serde_json::{Map, Value};
use wire::ironic::PatchOperation;

use crate::error::{ApiError, ApiResult};
use crate::state::clip;

/// Operations in one patch.
const MAX_OPERATIONS: usize = 1000;
/// Depth of a pointer.
const MAX_DEPTH: usize = 16;

/// Reads a patch from a request's body.
pub(crate) fn parse(body: Value) -> ApiResult<Vec<PatchOperation>> {
    let Value::Array(operations) = body else {
        let text = r#"a patch is a list: [{"op": "replace", "path": "/name", "value": "n1"}]"#;
        return Err(ApiError::invalid(text));
    };
    if operations.len() > MAX_OPERATIONS {
        let text = format!("a patch has at most {MAX_OPERATIONS} operations");
        return Err(ApiError::Invalid(text));
    }
    let numbered = operations.into_iter().enumerate();
    numbered
        .map(|(number, operation)| parse_one(number, operation))
        .collect()
}

fn parse_one(number: usize, operation: Value) -> ApiResult<PatchOperation> {
    let has_value = operation.get("value").is_some();
    let mut operation: PatchOperation = serde_json::from_value(operation)
        .map_err(|error| ApiError::Invalid(format!("operation /{number} of the patch: {error}")))?;
    match (operation.op.as_str(), has_value) {
        ("remove", _) => {}
        ("add" | "replace", true) => {
            // `null` is a value.
            operation.value.get_or_insert(Value::Null);
        }
        ("add" | "replace", false) => {
            return Err(at(&operation.path, "the operation has no `value`"));
        }
        (other, _) => {
            let other = clip(other);
            let text = format!("`{other}` is none of add, replace, remove");
            return Err(at(&operation.path, &text));
        }
    }
    Ok(operation)
}

/// Carries out one operation. A path whose parents are missing is an error, and so are `replace` and `remove` of nothing.
pub(crate) fn apply(document: &mut Value, operation: PatchOperation) -> ApiResult<()> {
    let PatchOperation { op, path, value } = operation;
    let mut keys = pointer(&path)?;
    let Some(last) = keys.pop() else {
        return Err(at(&path, "the whole node cannot be patched at once"));
    };
    let mut parent = document;
    for key in &keys {
        let child = match parent {
            Value::Object(map) => map.get_mut(key),
            Value::Array(list) => position(key, list.len()).and_then(|at| list.get_mut(at)),
            _ => None,
        };
        parent = child.ok_or_else(|| at(&path, &format!("there is no `{}` on the way", clip(key))))?;
    }
    match parent {
        Value::Object(map) => patch_object(map, &op, &path, last, value),
        Value::Array(list) => patch_list(list, &op, &path, &last, value),
        _ => Err(at(&path, "its parent is neither an object nor a list")),
    }
}

fn patch_object(
    map: &mut Map<String, Value>,
    op: &str,
    path: &str,
    key: String,
    value: Option<Value>,
) -> ApiResult<()> {
    match (op, value) {
        ("add", Some(value)) => {
            map.insert(key, value);
        }
        ("replace", Some(value)) if map.contains_key(&key) => {
            map.insert(key, value);
        }
        ("remove", _) if map.contains_key(&key) => {
            map.remove(&key);
        }
        _ => return Err(at(path, "there is nothing to replace or remove")),
    }
    Ok(())
}

fn patch_list(list: &mut Vec<Value>, op: &str, path: &str, key: &str, value: Option<Value>) -> ApiResult<()> {
    let len = list.len();
    match (op, value) {
        ("add", Some(value)) if key == "-" => list.push(value),
        ("add", Some(value)) => match position(key, len + 1) {
            Some(place) => list.insert(place, value),
            None => return Err(at(path, "there is no such place in the list")),
        },
        ("replace", Some(value)) => match position(key, len) {
            Some(place) => list[place] = value,
            None => return Err(at(path, "there is nothing to replace")),
        },
        _ => match position(key, len) {
            Some(place) => {
                list.remove(place);
            }
            None => return Err(at(path, "there is nothing to remove")),
        },
    }
    Ok(())
}

/// A list index below `len`; no sign, no leading zero (RFC 6901 §4).
fn position(key: &str, len: usize) -> Option<usize> {
    let digits = key.bytes().all(|digit| digit.is_ascii_digit());
    let canonical = digits && (key == "0" || !key.starts_with('0'));
    key.parse().ok().filter(|at| canonical && *at < len)
}

/// The keys of a pointer, unescaped. Ironic takes `name` for `/name` nowhere, and neither do we.
fn pointer(path: &str) -> ApiResult<Vec<String>> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let Some(rest) = path.strip_prefix('/') else {
        return Err(at(path, "a path begins with `/`"));
    };
    let keys: Vec<_> = rest
        .split('/')
        .map(|key| key.replace("~1", "/").replace("~0", "~"))
        .collect();
    if keys.len() > MAX_DEPTH {
        return Err(at(path, "the path is too deep"));
    }
    Ok(keys)
}

/// 400 that names the pointer.
pub(crate) fn at(path: &str, problem: &str) -> ApiError {
    ApiError::Invalid(format!("patch of `{}`: {problem}", clip(path)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(document: Value, patch: Value) -> Result<Value, String> {
        let mut document = document;
        for operation in parse(patch).map_err(|error| error.to_string())? {
            apply(&mut document, operation).map_err(|error| error.to_string())?;
        }
        Ok(document)
    }

    #[test]
    fn operations_do_what_rfc_6902_says() {
        let start = json!({"a": {"b": 1}, "l": [1, 2]});
        for (patch, wanted) in [
            (
                json!([{"op": "add", "path": "/a/c", "value": null}]),
                json!({"a": {"b": 1, "c": null}, "l": [1, 2]}),
            ),
            (
                json!([{"op": "replace", "path": "/a/b", "value": 2}]),
                json!({"a": {"b": 2}, "l": [1, 2]}),
            ),
            (json!([{"op": "remove", "path": "/a/b"}]), json!({"a": {}, "l": [1, 2]})),
            (
                json!([{"op": "add", "path": "/l/-", "value": 3}]),
                json!({"a": {"b": 1}, "l": [1, 2, 3]}),
            ),
            (
                json!([{"op": "add", "path": "/l/0", "value": 0}]),
                json!({"a": {"b": 1}, "l": [0, 1, 2]}),
            ),
            (
                json!([{"op": "add", "path": "/a/x~1y~0z", "value": 1}]),
                json!({"a": {"b": 1, "x/y~z": 1}, "l": [1, 2]}),
            ),
        ] {
            assert_eq!(patched(start.clone(), patch.clone()), Ok(wanted), "{patch}");
        }
    }

    #[test]
    fn refusals_name_the_pointer() {
        let start = json!({"a": {"b": 1}, "l": [1]});
        for (patch, words) in [
            (json!({"op": "add"}), "is a list"),
            (json!([{"path": "/a"}]), "/0"),
            (json!([{"op": "add", "path": "/a/c"}]), "`/a/c`"),
            (json!([{"op": "move", "path": "/a", "from": "/l"}]), "`move`"),
            (json!([{"op": "replace", "path": "/a/zz", "value": 1}]), "`/a/zz`"),
            (json!([{"op": "remove", "path": "/zz"}]), "`/zz`"),
            (json!([{"op": "add", "path": "/x/y", "value": 1}]), "no `x`"),
            (json!([{"op": "add", "path": "a", "value": 1}]), "begins with"),
            (json!([{"op": "add", "path": "", "value": 1}]), "whole node"),
            (json!([{"op": "replace", "path": "/l/01", "value": 1}]), "`/l/01`"),
            (json!([{"op": "add", "path": "/l/9", "value": 1}]), "no such place"),
            (json!([{"op": "remove", "path": "/a/b/c"}]), "`/a/b/c`"),
        ] {
            let refusal = patched(start.clone(), patch.clone()).unwrap_err();
            assert!(refusal.contains(words), "{patch}: {refusal}");
        }
    }
}
