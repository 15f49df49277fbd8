//! How to come to OpenStack's services: Swift for a backend, Glance for images.

use std::path::PathBuf;

use model::Secret;

use crate::entries::{Out, word};
use crate::section::Section;
use crate::values::HttpUrl;

/// Where to authenticate, as whom, and which endpoint to take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenStack {
    /// Keystone v3, or the v1 authentication of Swift's tempauth. The endpoint itself where nobody authenticates.
    pub auth_url: HttpUrl,
    /// As whom.
    pub credential: Credential,
    /// Region of the catalogue; `None` = the first.
    pub region: Option<String>,
    /// Which endpoint of the catalogue.
    pub interface: Interface,
    /// The service's endpoint, if it is not to be looked for in the catalogue.
    pub endpoint: Option<HttpUrl>,
    /// PEM file of CAs to trust beside the machine's own.
    pub ca: Option<PathBuf>,
    /// The servers' certificates are checked.
    pub verify: bool,
}

/// What we authenticate with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Credential {
    /// Keystone v3: a user with a password.
    Password {
        /// The user.
        user: Member,
        /// Its password.
        password: Secret,
        /// The project that the token is for.
        project: Member,
    },
    /// Keystone v3: an application credential.
    Application {
        /// Which.
        credential: ApplicationCredential,
        /// Its secret.
        secret: Secret,
    },
    /// Swift's tempauth.
    V1 {
        /// `ACCOUNT:USER`.
        user: String,
        /// The user's key.
        key: Secret,
    },
    /// No authentication.
    None,
}

/// Something that has an identifier and a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Named {
    /// By identifier.
    Id(String),
    /// By name.
    Name(String),
}

/// A user or a project; a name says nothing without its domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Member {
    /// By identifier.
    Id(String),
    /// By name.
    Name {
        /// Its name.
        name: String,
        /// In which domain.
        domain: Named,
    },
}

/// An application credential.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApplicationCredential {
    /// By identifier.
    Id(String),
    /// By name, which only its user makes unique.
    Name {
        /// Its name.
        name: String,
        /// Whose it is.
        user: Member,
    },
}

/// Which of a service's endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interface {
    /// For everybody.
    Public,
    /// For other services.
    Internal,
    /// For administrators.
    Admin,
}

pub(crate) const INTERFACES: &[(&str, Interface)] = &[
    ("public", Interface::Public),
    ("internal", Interface::Internal),
    ("admin", Interface::Admin),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Password,
    Application,
    V1,
    None,
}

const KINDS: &[(&str, Kind)] = &[
    ("password", Kind::Password),
    ("application-credential", Kind::Application),
    ("v1", Kind::V1),
    ("none", Kind::None),
];

/// Something by name or by identifier: the two keys, and those of its domain.
struct Keys {
    name: &'static str,
    id: &'static str,
    domain: &'static str,
    domain_id: &'static str,
    remedy: &'static str,
}

const USER: Keys = Keys {
    name: "username",
    id: "user-id",
    domain: "user-domain",
    domain_id: "user-domain-id",
    remedy: "name the user (username, or user-id)",
};

const PROJECT: Keys = Keys {
    name: "project",
    id: "project-id",
    domain: "project-domain",
    domain_id: "project-domain-id",
    remedy: "name the user's project (project, or project-id)",
};

impl OpenStack {
    /// Takes what it needs out of a section that holds other settings as well.
    pub(crate) fn take(section: &mut Section<'_>) -> Option<Self> {
        let kind = match section.is_absent("auth-type") {
            true => {
                section.item("auth-type");
                Some(Kind::Password)
            }
            false => section.choice("auth-type", KINDS),
        };
        let Some(kind) = kind else {
            // What belongs to it cannot be told.
            section.rest();
            return None;
        };
        let endpoint: Option<HttpUrl> = section.value("endpoint");
        let auth_url = match kind {
            Kind::None => {
                if endpoint.is_none() {
                    section.missing("endpoint", "auth-type = \"none\" needs the URL of the service itself");
                }
                endpoint.clone()
            }
            Kind::V1 => section.required("auth-url", "give the URL of the v1 authentication (…/auth/v1.0)"),
            Kind::Password | Kind::Application => section.required("auth-url", "give the URL of Keystone (…/v3)"),
        };
        let credential = credential(section, kind);
        let region = section.value("region");
        let interface = section.choice("interface", INTERFACES).unwrap_or(Interface::Public);
        let ca = section.value("ca");
        let verify = section.value("verify").unwrap_or(true);
        Some(Self {
            auth_url: auth_url?,
            credential: credential?,
            region,
            interface,
            endpoint,
            ca,
            verify,
        })
    }
}

fn credential(section: &mut Section<'_>, kind: Kind) -> Option<Credential> {
    match kind {
        Kind::Password => {
            let user = member(section, &USER);
            let password = section.secret("password", "password-file", "name a file that holds the password");
            let project = member(section, &PROJECT);
            Some(Credential::Password {
                user: user?,
                password: password?,
                project: project?,
            })
        }
        Kind::Application => {
            let credential = match section.value("application-credential-id") {
                Some(id) => {
                    section.item("application-credential-name");
                    Some(ApplicationCredential::Id(id))
                }
                None => {
                    let remedy = "name the credential (application-credential-id, or -name and its user)";
                    let name = section.required("application-credential-name", remedy);
                    name.and_then(|name| {
                        let user = member(section, &USER)?;
                        Some(ApplicationCredential::Name { name, user })
                    })
                }
            };
            let secret = section.secret(
                "application-credential-secret",
                "application-credential-secret-file",
                "name a file that holds the credential's secret",
            );
            Some(Credential::Application {
                credential: credential?,
                secret: secret?,
            })
        }
        Kind::V1 => {
            let user = section.required("username", "name the user, as ACCOUNT:USER");
            let key = section.secret("password", "password-file", "name a file that holds the user's key");
            Some(Credential::V1 { user: user?, key: key? })
        }
        Kind::None => Some(Credential::None),
    }
}

/// The identifier if there is one; else the name, in a domain that is called `Default` if nothing else is said.
fn member(section: &mut Section<'_>, keys: &Keys) -> Option<Member> {
    let domain_name: Option<String> = section.value(keys.domain);
    let domain_id = section.value(keys.domain_id);
    if let Some(id) = section.value(keys.id) {
        section.item(keys.name);
        return Some(Member::Id(id));
    }
    let name = section.required(keys.name, keys.remedy)?;
    let domain = match domain_id {
        Some(id) => Named::Id(id),
        None => Named::Name(domain_name.unwrap_or("Default".into())),
    };
    Some(Member::Name { name, domain })
}

impl OpenStack {
    pub(crate) fn write(&self, out: &mut Out) {
        let Self {
            auth_url,
            credential,
            region,
            interface,
            endpoint,
            ca,
            verify,
        } = self;
        let kind = match credential {
            Credential::Password { .. } => Kind::Password,
            Credential::Application { .. } => Kind::Application,
            Credential::V1 { .. } => Kind::V1,
            Credential::None => Kind::None,
        };
        out.put("auth-type", word(KINDS, &kind));
        // Without authentication it is the endpoint.
        out.put("auth-url", Some(auth_url).filter(|_| kind != Kind::None));
        match credential {
            Credential::Password {
                user,
                password,
                project,
            } => {
                user.write(&USER, out);
                out.put("password", password);
                project.write(&PROJECT, out);
            }
            Credential::Application { credential, secret } => {
                match credential {
                    ApplicationCredential::Id(id) => out.put("application-credential-id", id),
                    ApplicationCredential::Name { name, user } => {
                        out.put("application-credential-name", name);
                        user.write(&USER, out);
                    }
                }
                out.put("application-credential-secret", secret);
            }
            Credential::V1 { user, key } => {
                out.put("username", user);
                out.put("password", key);
            }
            Credential::None => {}
        }
        out.put("region", region.as_ref());
        out.put("interface", word(INTERFACES, interface));
        out.put("endpoint", endpoint.as_ref());
        out.put("ca", ca.as_ref());
        out.put("verify", *verify);
    }
}

impl Member {
    fn write(&self, keys: &Keys, out: &mut Out) {
        match self {
            Self::Id(id) => out.put(keys.id, id),
            Self::Name { name, domain } => {
                out.put(keys.name, name);
                match domain {
                    Named::Id(id) => out.put(keys.domain_id, id),
                    Named::Name(name) => out.put(keys.domain, name),
                }
            }
        }
    }
}
