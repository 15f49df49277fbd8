//! Who the server and its BMC are.

use super::Run;
use super::read::Element;
use super::write::{UNKNOWN_USER, escaped, text_of};
use crate::config::BootMode;

type Done = Result<(), String>;

pub(super) fn firmware(run: &mut Run<'_>, _: &Element, _: &[Element]) -> Done {
    let facts = &run.server.config.profile.ribcl;
    let text = format!(
        "<GET_FW_VERSION\n   FIRMWARE_VERSION = \"{}\"\n   FIRMWARE_DATE = \"{}\"\n   MANAGEMENT_PROCESSOR = \"{}\"\n   \
         LICENSE_TYPE = \"{}\"\n    />\n",
        escaped(version(run)),
        escaped(&facts.firmware_date),
        escaped(&facts.processor),
        escaped(run.server.licence()),
    );
    run.answer.payload(&text);
    Ok(())
}

/// The number in "iLO 4 v2.82", or all of "1.82".
fn version<'a>(run: &Run<'a>) -> &'a str {
    let firmware = run.server.config.profile.firmware.as_str();
    firmware.rsplit(" v").next().unwrap_or(firmware)
}

pub(super) fn licences(run: &mut Run<'_>, _: &Element, _: &[Element]) -> Done {
    let text = format!(
        "<GET_ALL_LICENSES>\n    <LICENSE>\n         <LICENSE_TYPE VALUE= \"{}\"/>\n         \
         <LICENSE_KEY VALUE= \"XXXXX-XXXXX-XXXXX-XXXXX-XXXXX\"/>\n         \
         <LICENSE_INSTALL_DATE VALUE= \"Mon Jan  5 09:00:00 2026\"/>\n         <LICENSE_CLASS VALUE=\"FQL\"/>\n    </LICENSE>\n\
         </GET_ALL_LICENSES>\n",
        escaped(run.server.licence())
    );
    run.answer.payload(&text);
    Ok(())
}

pub(super) fn network(run: &mut Run<'_>, _: &Element, _: &[Element]) -> Done {
    let name = bmc_name(run);
    let rows = [
        ("ENABLE_NIC", "Y"),
        ("SPEED_AUTOSELECT", "Y"),
        ("NIC_SPEED", "Automatic"),
        ("FULL_DUPLEX", "Automatic"),
        ("DHCP_ENABLE", "N"),
        ("MAC_ADDRESS", &bmc_mac(run)),
        ("IP_ADDRESS", &run.server.config.listen.ip().to_string()),
        ("SUBNET_MASK", "255.255.255.0"),
        ("GATEWAY_IP_ADDRESS", "0.0.0.0"),
        ("DNS_NAME", &name),
        ("DOMAIN_NAME", ""),
    ]
    .map(|(name, value)| format!("    <{name} VALUE=\"{}\"/>\n", escaped(value)));
    run.answer.payload(&format!(
        "<GET_NETWORK_SETTINGS>\n{}</GET_NETWORK_SETTINGS>\n",
        rows.concat()
    ));
    Ok(())
}

pub(super) fn product(run: &mut Run<'_>, _: &Element, _: &[Element]) -> Done {
    let model = escaped(&run.server.config.profile.model);
    run.answer.payload(&format!(
        "  <GET_PRODUCT_NAME>\n    <PRODUCT_NAME VALUE =\"{model}\"/>\n  </GET_PRODUCT_NAME>\n"
    ));
    Ok(())
}

pub(super) fn server_name(run: &mut Run<'_>, _: &Element, _: &[Element]) -> Done {
    run.answer.payload("<SERVER_NAME VALUE=\"\" />\n");
    Ok(())
}

/// The records that tell who it is, as an iLO decodes them; serial numbers are padded as in SMBIOS.
pub(super) fn host_data(run: &mut Run<'_>, _: &Element, _: &[Element]) -> Done {
    let server = run.server;
    let profile = server.config.profile;
    let (family, date) = rom(&profile.bios_version);
    let fields = |fields: &[(&str, &str)]| -> String {
        let fields = fields.iter();
        fields
            .map(|(name, value)| format!("  <FIELD NAME=\"{name}\" VALUE=\"{}\"/>\n", escaped(value)))
            .collect()
    };
    let dashed = |mac: &str| mac.to_ascii_uppercase().replace(':', "-");
    let records = [
        ("0", fields(&[("Family", family), ("Date", date)])),
        (
            "1",
            fields(&[
                ("Product Name", &profile.model),
                ("Serial Number", &format!("{:<16}", server.serial_number)),
                ("UUID", &server.serial_number),
                ("cUUID", &server.uuid.to_ascii_uppercase()),
            ]),
        ),
        (
            "209",
            fields(&[
                ("Port", "1"),
                ("MAC", &dashed(&server.mac)),
                ("Port", "iLO"),
                ("MAC", &dashed(&bmc_mac(run))),
            ]),
        ),
    ];
    let records: String = records
        .iter()
        .map(|(kind, fields)| {
            format!(" <SMBIOS_RECORD TYPE=\"{kind}\" B64_DATA=\"AAAA\">\n{fields} </SMBIOS_RECORD>\n")
        })
        .collect();
    run.answer
        .payload(&format!("<GET_HOST_DATA>\n{records}</GET_HOST_DATA>\n"));
    Ok(())
}

/// What clients look up there: memory, processors, ports and firmware.
pub(super) fn health(run: &mut Run<'_>, _: &Element, _: &[Element]) -> Done {
    let server = run.server;
    let profile = server.config.profile;
    let facts = &profile.ribcl;
    let (family, date) = rom(&profile.bios_version);
    let value = |name: &str, value: &str| format!("            <{name} VALUE = \"{}\"/>\n", escaped(value));
    // iLO 3 and older misspell it.
    let nics = match facts.boot_modes {
        crate::profile::BootModes::Both => "NIC_INFORMATION",
        _ => "NIC_INFOMATION",
    };
    let uefi = server.state().boot_mode() == BootMode::Uefi;
    let firmware = [
        ("HP ProLiant System ROM", format!("{family} {date}")),
        ("iLO", format!("{} {}", version(run), facts.firmware_date)),
        ("System ROM mode", if uefi { "UEFI" } else { "Legacy" }.to_owned()),
    ];
    let firmware: String = firmware
        .iter()
        .zip(1..)
        .map(|((name, text), index)| {
            let rows = value("FIRMWARE_NAME", name) + &value("FIRMWARE_VERSION", text);
            format!("       <INDEX_{index}>\n{rows}       </INDEX_{index}>\n")
        })
        .collect();
    let text = format!(
        "<GET_EMBEDDED_HEALTH_DATA>\n    <PROCESSORS>\n       <PROCESSOR>\n{}{}{}       </PROCESSOR>\n    </PROCESSORS>\n    \
         <{nics}>\n       <NIC>\n{}{}       </NIC>\n       <iLO>\n{}{}       </iLO>\n    </{nics}>\n    \
         <FIRMWARE_INFORMATION>\n{firmware}    </FIRMWARE_INFORMATION>\n    \
         <HEALTH_AT_A_GLANCE>\n       <FANS STATUS= \"OK\"/>\n       <TEMPERATURE STATUS= \"OK\"/>\n    </HEALTH_AT_A_GLANCE>\n\
         </GET_EMBEDDED_HEALTH_DATA>\n",
        value("LABEL", "Proc 1"),
        value("SPEED", "2100 MHz"),
        value("EXECUTION_TECHNOLOGY", "8/8 cores; 16 threads"),
        value("NETWORK_PORT", "Port 1"),
        value("MAC_ADDRESS", &server.mac),
        value("NETWORK_PORT", "iLO Dedicated Network Port"),
        value("MAC_ADDRESS", &bmc_mac(run)),
    );
    run.answer.payload(&text);
    Ok(())
}

pub(super) fn user(run: &mut Run<'_>, element: &Element, _: &[Element]) -> Done {
    let login = element.attribute("USER_LOGIN").ok_or_else(|| element.name.clone())?;
    if login != run.server.config.user {
        run.answer.fail(UNKNOWN_USER, text_of(UNKNOWN_USER));
        return Ok(());
    }
    let name = escaped(&login);
    let rights = [
        "ADMIN_PRIV",
        "REMOTE_CONS_PRIV",
        "RESET_SERVER_PRIV",
        "VIRTUAL_MEDIA_PRIV",
        "CONFIG_ILO_PRIV",
    ]
    .map(|right| format!("    {right}=\"Y\"\n"));
    run.answer.payload(&format!(
        "<GET_USER\n    USER_NAME=\"{name}\"\n    USER_LOGIN=\"{name}\"\n{}    />\n",
        rights.concat()
    ));
    Ok(())
}

/// Family and date of "P89 v2.76 (10/21/2019)" or "I27 05/05/2011".
fn rom(version: &str) -> (&str, &str) {
    let family = version.split(' ').next().unwrap_or_default();
    let date = version.rsplit(' ').next().unwrap_or_default();
    (family, date.trim_matches(['(', ')']))
}

/// Of the BMC's own port: the server's with another third part.
fn bmc_mac(run: &Run<'_>) -> String {
    let mut parts: Vec<&str> = run.server.mac.split(':').collect();
    if let Some(third) = parts.get_mut(2) {
        *third = "1c";
    }
    parts.join(":")
}

fn bmc_name(run: &Run<'_>) -> String {
    format!("ILO{}", run.server.serial_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rom_version_has_a_family_and_a_date() {
        assert_eq!(rom("P89 v2.76 (10/21/2019)"), ("P89", "10/21/2019"));
        assert_eq!(rom("I27 05/05/2011"), ("I27", "05/05/2011"));
    }
}
