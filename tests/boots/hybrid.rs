//! Boot ISOs of every loader, as a CD, as a USB stick and as a disk.

use std::fs;
use std::sync::Arc;

use bytes::Bytes;
use image::{
    BootFile, BootIsoSpec, Extent, FileSource, Firmware as For, Hybrid, IsoPatch, Kind, Layout, SourceFile, SourceMap,
    patch_iso,
};
use sha2::Digest as _;

use crate::firmware::{Firmware, Machine, Medium, PATIENCE, conductor};
use crate::lab::{self, Lab, Machines};
use crate::tool::{Folder, esp, make};

/// Bytes of the longest line that is taken.
const LONGEST: usize = 1983;
/// Every character that a kernel line carries and a URL's path may be asked for with.
const ODD: &str = "/$a${b};{c}|&d!~(e)[f]^*g@h+i=j:k%l<m>_n.o-p`";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loader {
    Isolinux,
    Grub,
}

fn bytes(lab: &Lab, key: &str) -> Bytes {
    fs::read(lab.file(key)).unwrap().into()
}

fn source(lab: &Lab, key: &str, sources: &mut SourceMap) -> SourceFile {
    let path = lab.file(key);
    let content = fs::read(&path).unwrap();
    let sha256 = model::Sha256(sha2::Sha256::digest(&content).into());
    sources.insert(sha256, Arc::new(FileSource::open(&path).unwrap()));
    SourceFile {
        sha256,
        len: content.len() as u64,
    }
}

/// Writes a hybrid ISO for both firmwares; the kernel has these arguments.
fn hybrid(lab: &Lab, folder: &Folder, loader: Loader, arguments: &str) -> String {
    let (kernel, ramdisk) = Machines::asked().deploy_pair();
    let mut sources = SourceMap::default();
    let kernel = source(lab, kernel, &mut sources);
    let ramdisk = source(lab, ramdisk, &mut sources);
    let mut spec = BootIsoSpec::new(kernel, ramdisk, For::Both);
    spec.kernel_arguments = arguments.to_owned();
    spec.esp = Some(Bytes::from(fs::read(esp(lab, folder)).unwrap()).into());
    let mbr = match loader {
        Loader::Isolinux => {
            spec.isolinux = Some(BootFile::from(bytes(lab, "ISOLINUX")));
            spec.ldlinux = Some(bytes(lab, "LDLINUX").into());
            "ISOLINUX_MBR"
        }
        Loader::Grub => {
            spec.grub_bios = Some(BootFile::from(bytes(lab, "GRUB_BIOS")));
            "GRUB_BIOS_MBR"
        }
    };
    spec.hybrid = Some(Hybrid {
        mbr: Some(bytes(lab, mbr)),
    });
    let path = folder.at("hybrid.iso");
    let file = fs::File::create(&path).unwrap();
    image::boot_iso(&spec).unwrap().write_to(&sources, &file).unwrap();
    path
}

async fn boots(loader: Loader, firmware: Firmware, medium: Medium) {
    let _one = lab::machine().await;
    let boot = move || {
        let (lab, folder) = (Lab::new(), Folder::new());
        let iso = hybrid(&lab, &folder, loader, "console=ttyS0");
        let floppy = folder.at("floppy.img");
        make(&format!(
            "image floppy --param ipa-api-url=http://10.0.2.2:1 -o {floppy}"
        ));
        let mut machine = Machine::boot(&lab, &folder, firmware, medium, &iso, &floppy);
        let name = if firmware == Firmware::Bios { "bios" } else { "uefi" };
        machine.says(&[
            &format!(", firmware {name} ["),
            "FARRIER-RAMDISK read the parameters volume /dev/",
        ]);
    };
    tokio::task::spawn_blocking(boot).await.unwrap();
}

#[tokio::test]
async fn a_hybrid_boots_a_bios_machine_as_a_usb_stick() {
    boots(Loader::Isolinux, Firmware::Bios, Medium::UsbDisk).await;
}

#[tokio::test]
async fn a_hybrid_boots_a_bios_machine_as_a_disk() {
    boots(Loader::Isolinux, Firmware::Bios, Medium::IdeDisk).await;
}

#[tokio::test]
async fn a_hybrid_boots_a_uefi_machine_as_a_usb_stick() {
    boots(Loader::Isolinux, Firmware::Uefi, Medium::UsbDisk).await;
}

#[tokio::test]
async fn a_hybrid_boots_a_uefi_machine_as_a_disk() {
    boots(Loader::Isolinux, Firmware::Uefi, Medium::IdeDisk).await;
}

#[tokio::test]
async fn a_hybrid_still_boots_a_uefi_machine_as_a_cd() {
    boots(Loader::Isolinux, Firmware::Uefi, Medium::Cd).await;
}

#[tokio::test]
async fn grub_boots_a_bios_machine_as_a_cd_and_as_a_usb_stick() {
    for medium in [Medium::Cd, Medium::UsbDisk] {
        boots(Loader::Grub, Firmware::Bios, medium).await;
    }
}

/// The last word of the line is what the ramdisk calls: it would be cut first, and what it holds means something to a shell,
/// to GRUB or to isolinux.
#[tokio::test]
async fn the_longest_kernel_line_arrives_whole() {
    for (loader, firmware) in [(Loader::Isolinux, Firmware::Bios), (Loader::Grub, Firmware::Uefi)] {
        let _one = lab::machine().await;
        let boot = move || {
            let (lab, folder) = (Lab::new(), Folder::new());
            let (url, requests) = conductor();
            let (first, last) = ("console=ttyS0 x.pad=", format!(" ipa-api-url={url}{ODD}"));
            let room = LONGEST - "boot_method=vmedia ".len() - first.len() - last.len();
            let line = |pad: usize| format!("{first}{}{last}", "p".repeat(pad));
            let iso = hybrid(&lab, &folder, loader, &line(room));
            let floppy = folder.at("floppy.img");
            make(&format!("image floppy -o {floppy}"));
            let mut machine = Machine::boot(&lab, &folder, firmware, Medium::Cd, &iso, &floppy);
            machine.says(&["FARRIER-RAMDISK read the parameters volume /dev/"]);
            let request = requests.recv_timeout(PATIENCE);
            assert!(
                request.is_ok(),
                "{loader:?} {firmware:?}: nobody called\n{}",
                machine.console()
            );
        };
        tokio::task::spawn_blocking(boot).await.unwrap();
    }
}

/// The same file with words on its kernel lines; the base is known as a whole, by its digest alone.
fn patched(folder: &Folder, iso: &str, arguments: &str) -> String {
    let mut sources = SourceMap::default();
    let content = fs::read(iso).unwrap();
    let sha256 = model::Sha256(sha2::Sha256::digest(&content).into());
    sources.insert(sha256, Arc::new(FileSource::open(iso.as_ref()).unwrap()));
    let len = content.len() as u64;
    let whole = Extent::Source { sha256, offset: 0, len };
    let base = Layout::from_extents(Kind::BootIso, vec![whole]).unwrap();
    let patch = IsoPatch {
        files: vec![("openstack/latest/user_data".to_owned(), Bytes::from_static(b"x").into())],
        kernel_arguments: arguments.to_owned(),
        ..IsoPatch::default()
    };
    let path = folder.at("patched.iso");
    let file = fs::File::create(&path).unwrap();
    let layout = patch_iso(&base, &sources, &patch).unwrap().layout;
    layout.write_to(&sources, &file).unwrap();
    path
}

#[tokio::test]
async fn a_patched_iso_boots_with_the_parameters_that_were_added() {
    for (firmware, medium) in [(Firmware::Bios, Medium::Cd), (Firmware::Uefi, Medium::UsbDisk)] {
        let _one = lab::machine().await;
        let boot = move || {
            let (lab, folder) = (Lab::new(), Folder::new());
            let (url, requests) = conductor();
            let iso = hybrid(&lab, &folder, Loader::Isolinux, "console=ttyS0");
            let iso = patched(&folder, &iso, &format!("ipa-api-url={url}"));
            let floppy = folder.at("floppy.img");
            make(&format!("image floppy -o {floppy}"));
            let mut machine = Machine::boot(&lab, &folder, firmware, medium, &iso, &floppy);
            machine.says(&["FARRIER-RAMDISK read the parameters volume /dev/"]);
            let request = requests.recv_timeout(PATIENCE);
            assert!(
                request.is_ok(),
                "{firmware:?} {medium:?}: nobody called\n{}",
                machine.console()
            );
        };
        tokio::task::spawn_blocking(boot).await.unwrap();
    }
}
