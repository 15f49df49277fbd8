//! xorriso and isoinfo on files of more than 4 GiB, which lie in the image as holes and are never written out.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use image::{Content, IsoSpec, Kind, LayoutBuilder, SourceMap, iso};

use crate::{Written, pattern, run, write};

const GIB: u64 = 1 << 30;
/// Where the first section of a file ends.
const SECTION: u64 = 4_294_965_248;
const LEN: u64 = 5 * GIB + 12_345;
/// What is in the file: marks, and zeros between them.
const MARKS: [u64; 4] = [0, SECTION - 1000, 5 * GIB, LEN - 100];
const MARK: usize = 100;

fn mark(at: u64) -> bytes::Bytes {
    // The third lies over the border of the two sections.
    pattern(at, if at == SECTION - 1000 { 3000 } else { MARK })
}

fn large() -> Written {
    let mut out = LayoutBuilder::new(Kind::Other);
    for at in MARKS {
        out.zeros_to(at);
        out.literal(mark(at));
    }
    let layout = iso(&IsoSpec {
        label: "LARGE".to_owned(),
        files: vec![
            ("images/a".to_owned(), Content::Literal(pattern(1, 3000))),
            ("images/disk.raw".to_owned(), out.finish().unwrap().into()),
            ("images/z".to_owned(), Content::Literal(pattern(2, 3000))),
        ],
    })
    .unwrap();
    let image = write(&layout, &SourceMap::default());
    let metadata = fs::metadata(&image.path).unwrap();
    assert!(metadata.len() > LEN, "the image is as long as it says");
    assert!(
        metadata.blocks() * 512 < 4 << 20,
        "zeros are holes: {} blocks",
        metadata.blocks()
    );
    image
}

#[test]
fn xorriso_finds_a_file_of_5_gib_whole_by_either_kind_of_name() {
    let image = large();
    let file = fs::File::open(&image.path).unwrap();
    for tree in ["nojoliet", "norock"] {
        let open = [
            "-abort_on",
            "WARNING",
            "-osirrox",
            "on",
            "-read_fs",
            tree,
            "-indev",
            image.path(),
        ];
        let find = [
            "-lsl",
            "/images",
            "--",
            "-find",
            "/images",
            "-name",
            "disk.raw",
            "-exec",
            "report_lba",
            "--",
        ];
        let listed = run("xorriso", "xorriso", &[&open[..], &find].concat());
        assert!(listed.contains(&LEN.to_string()), "{tree}: {listed}");
        // File data lba:  section , start , blocks , size , path
        let sections: Vec<(u64, u64)> = listed
            .lines()
            .filter_map(|line| line.strip_prefix("File data lba:"))
            .map(|line| {
                let numbers: Vec<u64> = line
                    .split(',')
                    .take(3)
                    .map(|word| word.trim().parse().unwrap())
                    .collect();
                (numbers[1] * 2048, numbers[2] * 2048)
            })
            .collect();
        assert_eq!(sections.len(), 2, "{tree}: {listed}");
        for at in MARKS {
            let expected = mark(at);
            let mut read = vec![0; expected.len()];
            for (index, byte) in (at..).zip(&mut read) {
                let (first, second) = (sections[0], sections[1]);
                let place = if index < first.1 {
                    first.0 + index
                } else {
                    second.0 + index - first.1
                };
                file.read_exact_at(std::slice::from_mut(byte), place).unwrap();
            }
            assert!(read == expected, "{tree}: {at}");
        }
        for (path, seed) in [("/images/a", 1), ("/images/z", 2)] {
            let out = image.path.with_extension("out");
            run(
                "xorriso",
                "xorriso",
                &[&open[..], &["-extract", path, out.to_str().unwrap()]].concat(),
            );
            assert!(fs::read(&out).unwrap() == pattern(seed, 3000), "{tree}: {path}");
            fs::remove_file(out).unwrap();
        }
    }
}

#[test]
fn isoinfo_lists_both_sections_in_every_kind_of_name() {
    let image = large();
    for names in [&["-R"][..], &["-J"], &[]] {
        let listed = run("genisoimage", "isoinfo", &[names, &["-l", "-i", image.path()]].concat());
        let sizes: Vec<u64> = listed
            .lines()
            .filter(|line| line.to_ascii_lowercase().contains("disk.raw"))
            .map(|line| line.split_whitespace().nth(4).unwrap().parse().unwrap())
            .collect();
        // isoinfo prints each record, or the sum once.
        assert_eq!(sizes.iter().sum::<u64>(), LEN, "{names:?}: {listed}");
    }
}
