//! Custom sections of a component: the outermost level alone is walked, so what stands in nested modules is no section of it.
//!
//! The binary format: WebAssembly's `magic version`, then sections of one byte id, a LEB128 length and as many bytes; a custom
//! section (id 0) begins with its name, a LEB128 length and as many bytes of UTF-8 (WebAssembly core specification, 5.5.3).

use std::ops::Range;

/// Magic, version and layer.
const HEADER: usize = 8;

/// One section of the outermost level.
struct Section<'a> {
    /// With its id and length.
    whole: Range<usize>,
    /// Name and data, if it is a custom one.
    custom: Option<(&'a str, &'a [u8])>,
}

/// What stands in the custom section of this name; `None` if there is none. The error says what is damaged.
pub(crate) fn read<'a>(component: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, String> {
    let mut found = None;
    for section in sections(component)? {
        if let Some((own, data)) = section.custom
            && own == name
            && found.replace(data).is_some()
        {
            return Err(format!("the section `{name}` stands in it twice"));
        }
    }
    Ok(found)
}

/// The component with this custom section at its end, instead of any that it had of the name.
pub(crate) fn write(component: &[u8], name: &str, data: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = component.get(..HEADER).unwrap_or_default().to_vec();
    for section in sections(component)? {
        if section.custom.is_none_or(|(own, _)| own != name) {
            out.extend_from_slice(&component[section.whole]);
        }
    }
    let mut content = leb(name.len());
    content.extend_from_slice(name.as_bytes());
    content.extend_from_slice(data);
    out.push(0);
    out.extend(leb(content.len()));
    out.extend(content);
    Ok(out)
}

fn sections(component: &[u8]) -> Result<Vec<Section<'_>>, String> {
    if component.len() < HEADER || !component.starts_with(b"\0asm") {
        return Err("it does not begin as WebAssembly does".to_owned());
    }
    let mut at = HEADER;
    let mut found = Vec::new();
    while at < component.len() {
        let begin = at;
        let id = component[at];
        at += 1;
        let size = take_leb(component, &mut at)?;
        let content = at..end(component, at, size)?;
        at = content.end;
        let custom = match id {
            0 => Some(named(&component[content])?),
            _ => None,
        };
        found.push(Section {
            whole: begin..at,
            custom,
        });
    }
    Ok(found)
}

fn named(content: &[u8]) -> Result<(&str, &[u8]), String> {
    let mut at = 0;
    let size = take_leb(content, &mut at)?;
    let end = end(content, at, size)?;
    let name = std::str::from_utf8(&content[at..end]).map_err(|_| "a section's name is no UTF-8".to_owned())?;
    Ok((name, &content[end..]))
}

fn end(bytes: &[u8], at: usize, size: usize) -> Result<usize, String> {
    at.checked_add(size)
        .filter(|end| *end <= bytes.len())
        .ok_or_else(|| "a section is longer than what is left of it".to_owned())
}

/// An unsigned 32-bit LEB128 at `at`, which moves behind it.
fn take_leb(bytes: &[u8], at: &mut usize) -> Result<usize, String> {
    let mut value = 0_u64;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(*at).ok_or("it ends within a length")?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let fits = u32::try_from(value).ok().and_then(|value| usize::try_from(value).ok());
            return fits.ok_or_else(|| "a length is above 32 bits".to_owned());
        }
    }
    Err("a length has more than five bytes".to_owned())
}

fn leb(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or_default();
        value >>= 7;
        if value == 0 {
            out.push(low);
            return out;
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Vec<u8> {
        wat::parse_str("(component (core module (@custom \"x\" \"inner\")))").unwrap()
    }

    #[test]
    fn what_was_written_reads_back_and_replaces_what_was_there() {
        let plain = empty();
        assert_eq!(
            read(&plain, "x"),
            Ok(None),
            "a nested module's section is not the component's"
        );
        let long = vec![b'a'; 300];
        let first = write(&plain, "x", &long).unwrap();
        assert_eq!(read(&first, "x"), Ok(Some(&long[..])));
        let second = write(&first, "x", b"b").unwrap();
        assert_eq!(read(&second, "x"), Ok(Some(&b"b"[..])));
        assert_eq!(read(&second, "y"), Ok(None));
        assert_eq!(second.len(), plain.len() + 5);
        let both = write(&second, "y", b"").unwrap();
        assert_eq!(
            (read(&both, "x"), read(&both, "y")),
            (Ok(Some(&b"b"[..])), Ok(Some(&b""[..])))
        );
    }

    #[test]
    fn damaged_bytes_are_refused_at_every_length() {
        let whole = write(&empty(), "x", b"some data").unwrap();
        let mut refused = 0;
        for length in 0..whole.len() {
            refused += usize::from(read(&whole[..length], "x").is_err());
        }
        assert!(refused > 20, "{refused}");
        let mut endless = whole.clone();
        endless.extend([0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert!(read(&endless, "x").is_err());
        let mut beyond = whole.clone();
        beyond.extend([0, 0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert!(read(&beyond, "x").is_err());
        let mut twice = whole;
        let section = [0, 2, 1, b'x'];
        twice.extend(section);
        assert!(read(&twice, "x").unwrap_err().contains("twice"));
    }
}
