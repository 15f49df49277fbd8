//! The agent's log archive: a gzipped tar in base64, as `log.collect_system_logs` answers.
//!
//! Written by hand because it is one small file: a ustar header, and deflate with stored blocks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Longest log in bytes.
const CAP: usize = 1 << 20;

/// A tar.gz with one file, in base64.
pub(crate) fn archive(name: &str, text: &str) -> String {
    let bytes = text.as_bytes();
    STANDARD.encode(gzip(&tar(name, &bytes[..bytes.len().min(CAP)])))
}

fn tar(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, &name.chars().take(99).collect::<String>());
    put(100, "0000644");
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", content.len()));
    put(136, "00000000000");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut out = header.to_vec();
    out.extend_from_slice(content);
    // Whole blocks, then two blocks of zeros.
    out.resize(out.len().next_multiple_of(512) + 1024, 0);
    out
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = content.chunks(0xffff).peekable();
    while let Some(block) = blocks.next() {
        out.push(u8::from(blocks.peek().is_none()));
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    out.extend_from_slice(&crc32(content).to_le_bytes());
    let length = u32::try_from(content.len() & 0xffff_ffff).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn tar_reads_the_archive() {
        let text = "line\n".repeat(40_000);
        let bytes = STANDARD.decode(archive("agent.log", &text)).unwrap();
        let mut tar = Command::new("tar")
            .args(["-xzOf", "-", "agent.log"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the tool `tar` is needed");
        let mut input = tar.stdin.take().unwrap();
        std::thread::spawn(move || input.write_all(&bytes).unwrap());
        let output = tar.wait_with_output().unwrap();
        assert!(output.status.success());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
    }

    #[test]
    fn the_checksum_is_the_known_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
