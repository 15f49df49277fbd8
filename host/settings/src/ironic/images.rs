//! What nodes boot, and how it is fetched.

use model::Secret;

use super::draft::{Draft, Range};
use super::site::{certificate, texts, truth};
use crate::checks::readable;
use crate::images::{KERNEL_APPEND_PARAMS, expand_default};
use crate::netboot::is_file_name;
use crate::tree::{Item, Origin, Raw};
use crate::values::{FromItem as _, Reference, is_image_id};

const MIB: i64 = 1 << 20;

pub(super) fn translate(draft: &mut Draft<'_>) {
    boot_loaders(draft);
    ramdisks(draft);
    by_arch(draft);
    kernel_lines(draft);
    cache(draft);
    servers(draft);
    netboot(draft);
}

fn boot_loaders(draft: &mut Draft<'_>) {
    reference(draft, "DEFAULT", "isolinux_bin", "images.isolinux");
    reference(draft, "DEFAULT", "ldlinux_c32", "images.ldlinux");
    match draft.text("conductor", "bootloader") {
        Some(_) => reference(draft, "conductor", "bootloader", "images.esp"),
        None => reference(draft, "DEFAULT", "esp_image", "images.esp"),
    }
    // An EFI system partition that was made for Ironic looks there.
    let path = draft.text_or_default("DEFAULT", "grub_config_path").to_owned();
    let origin = draft.origin("DEFAULT", "grub_config_path");
    draft.put("images.grub-config-path", Raw::Text(path), origin);
    draft.copy("ilo", "default_boot_mode", "images.default-boot-mode");
}

/// An option that names an image or a boot loader: by its URL, its path, or its identifier in Glance.
fn reference(draft: &mut Draft<'_>, group: &'static str, name: &'static str, setting: &str) {
    let Some(text) = draft.text(group, name).map(image_reference) else {
        return;
    };
    let origin = draft.origin(group, name);
    if is_there(draft, &text, &origin) {
        draft.put(setting, Raw::Text(text), origin);
    }
}

/// Not so for a file that is missing, which is told of: Ironic finds that out at the first deployment that needs it, and a
/// host that starts with it must start with us. What is no reference at all is refused where it is read.
fn is_there(draft: &Draft<'_>, text: &str, origin: &Origin) -> bool {
    let item = Item {
        raw: Raw::Text(text.to_owned()),
        origin: origin.clone(),
    };
    let Ok(Reference::File(path)) = Reference::from_item(&item) else {
        return true;
    };
    let Err(reason) = readable(&path) else {
        return true;
    };
    let label = origin.option().unwrap_or_default();
    draft.report.warning(
        origin.clone(),
        format!(
            "{label} is left out: {}: {reason}; put the file there and start again, or correct the path",
            path.display()
        ),
    );
    false
}

fn image_reference(text: &str) -> String {
    match is_image_id(text) {
        true => format!("glance://{text}"),
        false => text.to_owned(),
    }
}

/// A kernel without its ramdisk is not booted, but the rest of the site may do without.
fn ramdisks(draft: &mut Draft<'_>) {
    for (kernel, ramdisk, settings) in [
        (
            "deploy_kernel",
            "deploy_ramdisk",
            ["images.deploy-kernel", "images.deploy-ramdisk"],
        ),
        (
            "rescue_kernel",
            "rescue_ramdisk",
            ["images.rescue-kernel", "images.rescue-ramdisk"],
        ),
    ] {
        let is_set = [kernel, ramdisk].map(|name| draft.text("conductor", name).is_some());
        match is_set {
            [true, true] => {
                reference(draft, "conductor", kernel, settings[0]);
                reference(draft, "conductor", ramdisk, settings[1]);
                // One of them is missing, which has been told: the other one alone boots nothing.
                if draft.tree.find(settings[0]).is_some() != draft.tree.find(settings[1]).is_some() {
                    for setting in settings {
                        draft.tree.remove(setting);
                    }
                }
            }
            [false, false] => {}
            [..] if draft.is_wrong(&[("conductor", kernel), ("conductor", ramdisk)]) => {}
            [has_kernel, _] => {
                let (there, missing) = if has_kernel {
                    (kernel, ramdisk)
                } else {
                    (ramdisk, kernel)
                };
                draft.report.warning(
                    draft.origin("conductor", there),
                    format!("[conductor] {there} has no effect without {missing}, which is not set; they are booted together"),
                );
            }
        }
    }
}

fn by_arch(draft: &mut Draft<'_>) {
    for (option, setting) in [
        ("deploy_kernel_by_arch", "deploy-kernel"),
        ("deploy_ramdisk_by_arch", "deploy-ramdisk"),
        ("rescue_kernel_by_arch", "rescue-kernel"),
        ("rescue_ramdisk_by_arch", "rescue-ramdisk"),
        ("bootloader_by_arch", "esp"),
    ] {
        let pairs = draft.dict("conductor", option).unwrap_or_default().to_vec();
        let origin = draft.origin("conductor", option);
        for (arch, text) in pairs {
            if arch.contains('.') {
                let message = format!("[conductor] {option} names {arch:?}, which is no architecture");
                draft.report.warning(origin.clone(), message);
                continue;
            }
            let text = image_reference(&text);
            if is_there(draft, &text, &origin) {
                let setting = format!("images.by-arch.{arch}.{setting}");
                draft.put(&setting, Raw::Text(text), origin.clone());
            }
        }
    }
}

fn kernel_lines(draft: &mut Draft<'_>) {
    for (group, settings) in [
        ("ilo", &["images.kernel-append-params"][..]),
        ("redfish", &["images.redfish-kernel-append-params"]),
        (
            "pxe",
            &["netboot.kernel-append-params", "images.instance-kernel-append-params"],
        ),
    ] {
        let Some(line) = line(draft, group) else {
            continue;
        };
        let origin = draft.origin(group, "kernel_append_params");
        for setting in settings {
            draft.put(setting, Raw::Text(line.clone()), origin.clone());
        }
    }
}

/// Also an empty line is one. A value over several lines is one line to a boot loader.
fn line(draft: &Draft<'_>, group: &'static str) -> Option<String> {
    let (found, _) = draft.set(group, "kernel_append_params")?;
    let line = found.value.in_text().replace('\n', " ");
    Some(expand_default(&line, KERNEL_APPEND_PARAMS))
}

/// Ironic has one cache for ISOs and one for other images; here is one for all.
fn cache(draft: &mut Draft<'_>) {
    let both = [("deploy", "iso_cache_size"), ("pxe", "image_cache_size")];
    let sizes = both.map(|(group, name)| draft.whole(group, name));
    if let Some(first) = both.iter().zip(sizes).find(|(_, size)| size.is_some()) {
        let ((group, name), _) = first;
        let origin = draft.origin(group, name);
        let mib: i64 = sizes
            .into_iter()
            .flatten()
            .map(|size| size.max(0))
            .fold(0, i64::saturating_add);
        draft.put("images.cache.max-bytes", Raw::Integer(mib.saturating_mul(MIB)), origin);
    }
    let both = [("deploy", "iso_cache_ttl"), ("pxe", "image_cache_ttl")];
    let longest = both
        .into_iter()
        .filter_map(|(group, name)| Some((draft.whole(group, name)?, group, name)))
        .max();
    if let Some((_, group, name)) = longest {
        let minutes = Range {
            least: 1,
            most: 3650 * 24 * 60,
            never: None,
            unit: "minutes",
        };
        draft.copy_number(group, name, "images.cache.max-age-minutes", &minutes);
    }
}

fn servers(draft: &mut Draft<'_>) {
    let timeout = Range {
        least: 1,
        most: 3600,
        never: None,
        unit: "seconds",
    };
    draft.copy_number(
        "DEFAULT",
        "webserver_connection_timeout",
        "images.server-timeout-s",
        &timeout,
    );
    if let Some(verify) = draft.text("DEFAULT", "webserver_verify_ca").map(str::to_owned) {
        let origin = draft.origin("DEFAULT", "webserver_verify_ca");
        match truth(&verify) {
            Some(true) => {}
            Some(false) => {
                let message = "[DEFAULT] webserver_verify_ca = False has no effect: certificates of image servers are always checked; name a PEM file with the authority that signed them";
                draft.report.warning(origin, message.to_owned());
            }
            None => certificate(draft, &verify, "images.server-ca", origin),
        }
    }
    if draft.text("deploy", "image_server_auth_strategy") != Some("http_basic") {
        return;
    }
    let origin = draft.origin("deploy", "image_server_auth_strategy");
    let user = draft.text("deploy", "image_server_user").map(str::to_owned);
    let password = draft.text("deploy", "image_server_password").map(Secret::new);
    match (user, password) {
        (Some(user), Some(password)) => {
            let user_at = draft.origin("deploy", "image_server_user");
            let password_at = draft.origin("deploy", "image_server_password");
            draft.put("images.server-user", Raw::Text(user), user_at);
            draft.put("images.server-password", Raw::Secret(password), password_at);
        }
        _ if draft.is_wrong(&[("deploy", "image_server_user"), ("deploy", "image_server_password")]) => {}
        _ => {
            let message = "[deploy] image_server_auth_strategy = http_basic needs [deploy] image_server_user and image_server_password; set both";
            draft.report.problem(origin, message.to_owned());
        }
    }
}

/// Boot loaders that firmware fetches; not one that is missing, or whose name stands for a folder.
fn loaders(draft: &mut Draft<'_>) {
    let pairs = draft.dict("pxe", "loader_file_paths").unwrap_or_default().to_vec();
    let origin = draft.origin("pxe", "loader_file_paths");
    let mut loaders = Vec::with_capacity(pairs.len());
    for (name, path) in pairs {
        if !is_file_name(&name) || !path.starts_with('/') {
            let message = format!(
                "[pxe] loader_file_paths names {name:?}, which is left out: a plain file name and an absolute path are taken"
            );
            draft.report.warning(origin.clone(), message);
        } else if is_there(draft, &path, &origin) {
            loaders.push(format!("{name}:{path}"));
        }
    }
    if !loaders.is_empty() {
        draft.put("netboot.loaders", texts(loaders, &origin), origin);
    }
}

fn netboot(draft: &mut Draft<'_>) {
    draft.copy("deploy", "http_root", "netboot.root");
    draft.copy("deploy", "http_url", "netboot.url");
    draft.copy("pxe", "ipxe_bootfile_name", "netboot.bios-bootfile");
    draft.copy("pxe", "uefi_ipxe_bootfile_name", "netboot.uefi-bootfile");
    let files = draft
        .dict("pxe", "ipxe_bootfile_name_by_arch")
        .unwrap_or_default()
        .to_vec();
    let origin = draft.origin("pxe", "ipxe_bootfile_name_by_arch");
    for (arch, file) in files {
        if !arch.contains('.') {
            draft.put(
                &format!("netboot.bootfile-by-arch.{arch}"),
                Raw::Text(file),
                origin.clone(),
            );
        }
    }
    loaders(draft);
    if let Some(seconds) = draft.whole("pxe", "ipxe_timeout")
        && seconds > 0
    {
        let raw = Raw::Integer(seconds.saturating_mul(1000).min(3_600_000));
        draft.put("netboot.timeout-ms", raw, draft.origin("pxe", "ipxe_timeout"));
    }
}
