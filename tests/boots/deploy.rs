//! Real machines deployed by the real conductor: onto their disk, and from a boot ISO that stays in the drive.

use sim::{BootMode, Device};

use crate::lab;
use crate::site::{Modes, Site};

async fn deploys(modes: Modes, automated_clean: bool) {
    let _one = lab::machine().await;
    let mode = modes.asked;
    let site = Site::new(2, modes).await;
    let alpha = site.conductor("alpha", automated_clean).await;

    let node = site.available(&alpha, 0, "agent_ilo", site.disk_image()).await;
    if automated_clean {
        assert!(
            site.console(0)
                .contains("FARRIER-RAMDISK command clean.execute_clean_step")
        );
    }
    alpha.bring(&node, "active", "active").await;
    site.assert_deployed(0);
    site.says(0, &format!("FARRIER-DISK-BOOTED {mode}")).await;
    let console = site.console(0);
    assert!(console.contains(&format!(", firmware {mode} [")), "{console}");
    assert!(console.contains("FARRIER-RAMDISK image written to"), "{console}");
    for device in [Device::Floppy, Device::Cd] {
        assert_eq!(
            site.inserted(0, device),
            None,
            "the ramdisk's {device:?} is still there"
        );
    }
    alpha.power_off(&node).await;

    let node = site.available(&alpha, 1, "iscsi_ilo", site.boot_iso_alone()).await;
    alpha.bring(&node, "active", "active").await;
    site.says(1, "FARRIER-INSTANCE-BOOTED BOOT_IMAGE=/boot/vmlinuz ").await;
    site.says(1, "boot_method=vmedia").await;
    assert!(site.inserted(1, Device::Cd).is_some(), "the boot ISO stays attached");
    assert_eq!(site.inserted(1, Device::Floppy), None);
    alpha.reboot(&node).await;
    site.says_again(1, "FARRIER-INSTANCE-BOOTED ").await;
    drop(alpha);
    site.sim.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bios_machine_is_cleaned_deployed_and_boots_its_disk_and_another_its_boot_iso() {
    // The machines come as UEFI machines: their nodes want them changed.
    let modes = Modes {
        factory: BootMode::Uefi,
        asked: "bios",
    };
    deploys(modes, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_uefi_machine_is_deployed_and_boots_its_disk_and_another_its_boot_iso() {
    let modes = Modes {
        factory: BootMode::LegacyBios,
        asked: "uefi",
    };
    deploys(modes, false).await;
}
