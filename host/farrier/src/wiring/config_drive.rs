//! Config drives out of what stands in them: an ISO with the label `config-2`, gzip'd and in base64, as agents take it.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use conductor::config_drive::Parts;
use flate2::Compression;
use flate2::write::GzEncoder;
use image::{ConfigDriveSpec, ConfigDriveVolume, Content, NoSources};
use model::{Node, Secret};
use serde_json::{Map, Value};

use super::errors::with_causes;

/// Where Ironic puts vendor data.
const VENDOR_DATA: &str = "openstack/latest/vendor_data2.json";

/// Same parts, same bytes.
pub(super) fn pack(node: &Node, parts: &Parts) -> Result<Secret, String> {
    let json = |object: &Map<String, Value>| Content::from(Bytes::from(Value::from(object.clone()).to_string()));
    let vendor_data = parts.vendor_data.as_ref().map(json);
    let spec = ConfigDriveSpec {
        meta_data: json(&parts.meta_data(node)),
        user_data: parts.user_data.clone().map(|text| Bytes::from(text).into()),
        network_data: parts.network_data.as_ref().map(json),
        vendor_data: None,
        files: vendor_data
            .map(|data| (VENDOR_DATA.to_owned(), data))
            .into_iter()
            .collect(),
        volume: ConfigDriveVolume::Iso,
    };
    let layout = image::config_drive(&spec).map_err(|error| with_causes(&error))?;
    let size = usize::try_from(layout.size()).map_err(|_| "the config drive is too big".to_owned())?;
    let mut drive = vec![0; size];
    layout
        .read_at(&NoSources, 0, &mut drive)
        .map_err(|error| error.to_string())?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    let packed = packed.write_all(&drive).and_then(|()| packed.finish());
    let packed = packed.map_err(|error| error.to_string())?;
    Ok(Secret::new(STANDARD.encode(packed)))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::Command;
    use std::time::SystemTime;

    use conductor::config_drive::{Given, read};
    use model::{Driver, NodeId};
    use serde_json::json;

    use super::*;

    /// Another reader's view of the drive: xorriso's.
    #[test]
    fn what_was_given_stands_where_cloud_init_looks_for_it() {
        let mut node = Node::new(NodeId::random(), Driver::AgentIlo, SystemTime::now());
        node.name = Some("n1".parse().unwrap());
        let given = json!({
            "meta_data": {"public_keys": {"a": "ssh-ed25519 AAAA"}},
            "user_data": "#cloud-config\npassword: grüezi\n",
            "network_data": {"links": []},
            "vendor_data": {"cloud-init": "#cloud-config\n"},
        });
        let Ok(Given::Parts(parts)) = read(given) else {
            panic!("no parts");
        };
        let packed = pack(&node, &parts).unwrap();
        assert_eq!(packed, pack(&node, &parts).unwrap(), "same parts, same bytes");
        assert!(
            matches!(read(json!(packed.expose())), Ok(Given::Ready(_))),
            "agents take it"
        );
        let bytes = STANDARD.decode(packed.expose()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let iso = folder.path().join("drive.iso");
        let mut drive = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..])
            .read_to_end(&mut drive)
            .unwrap();
        assert_eq!(&drive[0x8028..0x8030], b"config-2", "the volume's label");
        std::fs::write(&iso, drive).unwrap();
        let out = folder.path().join("out");
        let done = Command::new("xorriso")
            .args(["-osirrox", "on", "-indev"])
            .arg(&iso)
            .args(["-extract", "/openstack/latest"])
            .arg(&out)
            .output()
            .expect("xorriso is needed (apt-get install xorriso)");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let text = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
        let meta_data: Value = serde_json::from_str(&text("meta_data.json")).unwrap();
        let uuid = node.id.to_string();
        let expected = json!({"uuid": uuid, "name": "n1", "public_keys": {"a": "ssh-ed25519 AAAA"}});
        assert_eq!(meta_data, expected);
        assert_eq!(text("user_data"), "#cloud-config\npassword: grüezi\n");
        assert_eq!(text("network_data.json"), "{\"links\":[]}");
        assert_eq!(text("vendor_data2.json"), "{\"cloud-init\":\"#cloud-config\\n\"}");
    }
}
