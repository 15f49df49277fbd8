//! How to come to a service of OpenStack: as keystoneauth reads it from the service's section, from a section that it names,
//! or, as in former times, from `[keystone_authtoken]`.

use model::Secret;

use super::draft::Draft;
use crate::oslo::lines::group_name;
use crate::oslo::lookup::At;
use crate::tree::{Origin, Raw};

/// Settings of farrier.toml.
pub(super) type Entries = Vec<(&'static str, Raw, Origin)>;

/// What there is.
pub(super) enum Credentials {
    Given(Entries),
    /// Nobody gave any.
    Absent,
    /// They cannot be used, which has been reported.
    Wrong,
}

const FALLBACK: &str = "keystone_authtoken";

/// For a service's section.
pub(super) fn credentials(draft: &Draft<'_>, service: &str) -> Credentials {
    let mut of_service = Texts::new(draft, service);
    let own = section_of(draft, service);
    let mut texts = Texts::new(draft, &own);
    let mut falls_back = false;
    if !texts.names_somebody() {
        texts = Texts::new(draft, &section_of(draft, FALLBACK));
        falls_back = true;
        if !texts.names_somebody() {
            return match of_service.is_wrong || texts.is_wrong {
                true => Credentials::Wrong,
                false => Credentials::Absent,
            };
        }
    }
    let Some(mut entries) = texts.credential(draft) else {
        return Credentials::Wrong;
    };
    for (option, key) in [("region_name", "region"), ("cafile", "ca")] {
        let mut text = of_service.text(&[option]);
        if text.is_none() && falls_back {
            text = texts.text(&[option]);
        }
        if let Some((text, at)) = text {
            entries.push((key, Raw::Text(text), at.origin()));
        }
    }
    if let Some((text, at)) = of_service.text(&["endpoint_override"]) {
        entries.push(("endpoint", Raw::Text(text), at.origin()));
    }
    let mut insecure = of_service.text(&["insecure"]);
    if insecure.is_none() && falls_back {
        insecure = texts.text(&["insecure"]);
    }
    if let Some((text, at)) = insecure
        && super::site::truth(&text) == Some(true)
    {
        entries.push(("verify", Raw::Boolean(false), at.origin()));
    }
    if let Some((text, at)) = of_service.text(&["valid_interfaces", "interface"]) {
        let first = text
            .split(',')
            .next()
            .unwrap_or_default()
            .trim()
            .trim_end_matches("URL");
        if !first.is_empty() {
            entries.push(("interface", Raw::Text(first.to_owned()), at.origin()));
        }
    }
    match of_service.is_wrong || texts.is_wrong {
        true => Credentials::Wrong,
        false => Credentials::Given(entries),
    }
}

/// The section with a service's credentials.
fn section_of(draft: &Draft<'_>, service: &str) -> String {
    let other = Texts::new(draft, service).text(&["auth_section"]);
    other.map_or_else(|| service.to_owned(), |(section, _)| group_name(&section))
}

/// Texts of a section, known or not.
struct Texts<'a> {
    draft: &'a Draft<'a>,
    group: String,
    is_wrong: bool,
}

impl<'a> Texts<'a> {
    fn new(draft: &'a Draft<'a>, group: &str) -> Self {
        Self {
            draft,
            group: group.to_owned(),
            is_wrong: false,
        }
    }

    /// The first of these that is set, and is not empty.
    fn text(&mut self, names: &[&str]) -> Option<(String, At)> {
        for name in names {
            match self.draft.conf.text(&self.group, name) {
                Ok(Some((text, at))) if !text.is_empty() => return Some((text, at)),
                Ok(_) => {}
                // What the table knows has been reported already.
                Err(_) if self.draft.conf.option(&self.group, name).is_some() => self.is_wrong = true,
                Err(wrong) => {
                    self.is_wrong = true;
                    let label = format!("[{}] {name}", self.group);
                    let origin = wrong.at.as_ref().map_or(Origin::Default, At::origin);
                    self.draft.report.problem(origin, format!("{label} {}", wrong.reason));
                }
            }
        }
        None
    }

    /// There is an attempt at credentials.
    fn names_somebody(&mut self) -> bool {
        let names = [
            "auth_type",
            "auth_plugin",
            "auth_url",
            "identity_uri",
            "admin_user",
            "username",
            "user_id",
            "application_credential_id",
        ];
        self.text(&names).is_some()
    }

    fn credential(&mut self, draft: &Draft<'_>) -> Option<Entries> {
        let kind = self.text(&["auth_type", "auth_plugin"]);
        let (kind, at) = match kind {
            Some((kind, at)) => (kind, at.origin()),
            None => ("password".to_owned(), draft.near(&[&self.group])),
        };
        let mut entries = Entries::new();
        let mut missing = Vec::new();
        let auth_type = match kind.as_str() {
            "password" | "v3password" | "v2password" => {
                self.auth_url(&mut entries, &mut missing);
                self.user(&mut entries, &mut missing);
                self.secret(&["password", "admin_password"], "password", &mut entries, &mut missing);
                self.project(&mut entries, &mut missing);
                "password"
            }
            "v3applicationcredential" => {
                self.auth_url(&mut entries, &mut missing);
                match self.text(&["application_credential_id"]) {
                    Some((id, at)) => entries.push(("application-credential-id", Raw::Text(id), at.origin())),
                    None => match self.text(&["application_credential_name"]) {
                        Some((name, at)) => {
                            entries.push(("application-credential-name", Raw::Text(name), at.origin()));
                            self.user(&mut entries, &mut missing);
                        }
                        None => missing.push("application_credential_id"),
                    },
                }
                let key = "application-credential-secret";
                self.secret(&["application_credential_secret"], key, &mut entries, &mut missing);
                "application-credential"
            }
            "v1password" => {
                self.auth_url(&mut entries, &mut missing);
                match (
                    self.text(&["username", "user_name"]),
                    self.text(&["project_name", "tenant_name"]),
                ) {
                    (Some((user, at)), Some((project, _))) => {
                        entries.push(("username", Raw::Text(format!("{project}:{user}")), at.origin()));
                    }
                    (Some((user, at)), None) => entries.push(("username", Raw::Text(user), at.origin())),
                    (None, _) => missing.push("username"),
                }
                self.secret(&["password"], "password", &mut entries, &mut missing);
                "v1"
            }
            "none" | "noauth" => {
                if let Some((url, at)) = self.text(&["endpoint_override", "endpoint"]) {
                    entries.push(("endpoint", Raw::Text(url), at.origin()));
                } else {
                    missing.push("endpoint_override");
                }
                "none"
            }
            _ => {
                let message = format!(
                    "[{}] auth_type is none that is offered; use password, v3applicationcredential, v1password or none",
                    self.group
                );
                draft.report.problem(at, message);
                return None;
            }
        };
        if !missing.is_empty() && self.is_wrong {
            // It is there and cannot be used, which has been told.
            return None;
        }
        if !missing.is_empty() {
            let message = format!(
                "[{}] {} must be set as well: credentials with auth_type = {kind} need them",
                self.group,
                missing.join(", ")
            );
            draft.report.problem(at, message);
            return None;
        }
        entries.push(("auth-type", Raw::Text(auth_type.to_owned()), at));
        Some(entries)
    }

    /// Keystone v3 is at the URL without the `/v2.0` that former settings end in.
    fn auth_url(&mut self, entries: &mut Entries, missing: &mut Vec<&'static str>) {
        match self.text(&["auth_url", "identity_uri", "www_authenticate_uri", "auth_uri"]) {
            Some((url, at)) => {
                let url = url.trim_end_matches('/');
                let url = url.strip_suffix("/v2.0").unwrap_or(url);
                entries.push(("auth-url", Raw::Text(url.to_owned()), at.origin()));
            }
            None => missing.push("auth_url"),
        }
    }

    fn user(&mut self, entries: &mut Entries, missing: &mut Vec<&'static str>) {
        if let Some((id, at)) = self.text(&["user_id"]) {
            entries.push(("user-id", Raw::Text(id), at.origin()));
            return;
        }
        match self.text(&["username", "user_name", "admin_user"]) {
            Some((name, at)) => entries.push(("username", Raw::Text(name), at.origin())),
            None => missing.push("username"),
        }
        self.domain(
            ["user_domain_id", "user_domain_name"],
            ["user-domain-id", "user-domain"],
            entries,
        );
    }

    fn project(&mut self, entries: &mut Entries, missing: &mut Vec<&'static str>) {
        if let Some((id, at)) = self.text(&["project_id", "tenant_id"]) {
            entries.push(("project-id", Raw::Text(id), at.origin()));
            return;
        }
        match self.text(&["project_name", "tenant_name", "admin_tenant_name"]) {
            Some((name, at)) => entries.push(("project", Raw::Text(name), at.origin())),
            None => missing.push("project_name"),
        }
        self.domain(
            ["project_domain_id", "project_domain_name"],
            ["project-domain-id", "project-domain"],
            entries,
        );
    }

    fn domain(&mut self, [id, name]: [&str; 2], [id_key, name_key]: [&'static str; 2], entries: &mut Entries) {
        for (options, key) in [
            ([id, "default_domain_id"], id_key),
            ([name, "default_domain_name"], name_key),
        ] {
            if let Some((text, at)) = self.text(&options) {
                entries.push((key, Raw::Text(text), at.origin()));
                return;
            }
        }
    }

    fn secret(
        &mut self,
        names: &[&'static str],
        key: &'static str,
        entries: &mut Entries,
        missing: &mut Vec<&'static str>,
    ) {
        match self.text(names) {
            Some((text, at)) => entries.push((key, Raw::Secret(Secret::new(text)), at.origin())),
            None => missing.extend(names.first()),
        }
    }
}
