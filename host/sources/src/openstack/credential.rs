//! Who we are, and how that is said to Keystone.

use model::Secret;
use serde_json::{Value, json};

/// Something that has an identifier and a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Named {
    /// By identifier.
    Id(String),
    /// By name.
    Name(String),
}

/// Something inside a domain: its name alone says nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Member {
    /// By identifier, which is unique in all domains.
    Id(String),
    /// By name.
    Name {
        /// Its name.
        name: String,
        /// In which domain.
        domain: Named,
    },
}

/// What names an application credential.
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

/// What we authenticate with. `Debug` shows no secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Credential {
    /// Keystone v3, a user with a password.
    Password {
        /// The user.
        user: Member,
        /// Its password.
        password: Secret,
        /// The project that the token is for.
        project: Member,
    },
    /// Keystone v3, an application credential; it belongs to one project.
    Application {
        /// Which.
        credential: ApplicationCredential,
        /// Its secret.
        secret: Secret,
    },
    /// Swift's own v1 authentication (tempauth): the answer names the account's URL, and that is all the catalogue.
    V1 {
        /// `ACCOUNT:USER`.
        user: String,
        /// The user's key.
        key: Secret,
    },
    /// No authentication: services that run by themselves. Endpoints come from the settings alone.
    None,
}

impl Credential {
    /// For people: as whom we come.
    pub(super) fn who(&self) -> String {
        match self {
            Self::Password { user, project, .. } => format!("user {} in project {}", user.show(), project.show()),
            Self::Application { credential, .. } => match credential {
                ApplicationCredential::Id(id) => format!("application credential {id}"),
                ApplicationCredential::Name { name, user } => {
                    format!("application credential {name} of user {}", user.show())
                }
            },
            Self::V1 { user, .. } => format!("user {user}"),
            Self::None => "nobody (no authentication)".to_owned(),
        }
    }

    /// The secret that must not come back in a message.
    pub(super) fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Password { password: secret, .. }
            | Self::Application { secret, .. }
            | Self::V1 { key: secret, .. } => Some(secret),
            Self::None => None,
        }
    }

    /// Body of `POST /v3/auth/tokens` (Identity API v3); `None` for what Keystone is not asked about.
    pub(super) fn to_v3(&self) -> Option<Value> {
        match self {
            Self::Password {
                user,
                password,
                project,
            } => {
                let mut user = user.to_v3();
                user["password"] = json!(password.expose());
                Some(json!({"auth": {
                    "identity": {"methods": ["password"], "password": {"user": user}},
                    "scope": {"project": project.to_v3()},
                }}))
            }
            Self::Application { credential, secret } => {
                let mut named = match credential {
                    ApplicationCredential::Id(id) => json!({"id": id}),
                    ApplicationCredential::Name { name, user } => json!({"name": name, "user": user.to_v3()}),
                };
                named["secret"] = json!(secret.expose());
                Some(json!({"auth": {
                    "identity": {"methods": ["application_credential"], "application_credential": named},
                }}))
            }
            Self::V1 { .. } | Self::None => None,
        }
    }
}

impl Named {
    fn to_v3(&self) -> Value {
        match self {
            Self::Id(id) => json!({"id": id}),
            Self::Name(name) => json!({"name": name}),
        }
    }
}

impl Member {
    fn to_v3(&self) -> Value {
        match self {
            Self::Id(id) => json!({"id": id}),
            Self::Name { name, domain } => json!({"name": name, "domain": domain.to_v3()}),
        }
    }

    fn show(&self) -> &str {
        match self {
            Self::Id(text) | Self::Name { name: text, .. } => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> Member {
        Member::Name {
            name: name.into(),
            domain: Named::Name("Default".into()),
        }
    }

    #[test]
    fn a_password_is_sent_with_user_project_and_their_domains() {
        let credential = Credential::Password {
            user: member("ironic"),
            password: Secret::new("s3cret"),
            project: Member::Id("p1".into()),
        };
        let sent = credential.to_v3().unwrap();
        let user = json!({"name": "ironic", "domain": {"name": "Default"}, "password": "s3cret"});
        assert_eq!(sent["auth"]["identity"]["password"]["user"], user);
        assert_eq!(sent["auth"]["identity"]["methods"], json!(["password"]));
        assert_eq!(sent["auth"]["scope"], json!({"project": {"id": "p1"}}));
        assert!(!format!("{credential:?} {}", credential.who()).contains("s3cret"));
    }

    #[test]
    fn an_application_credential_names_no_scope() {
        let secret = Secret::new("s3cret");
        for (credential, named) in [
            (
                ApplicationCredential::Id("a1".into()),
                json!({"id": "a1", "secret": "s3cret"}),
            ),
            (
                ApplicationCredential::Name {
                    name: "farrier".into(),
                    user: Member::Id("u1".into()),
                },
                json!({"name": "farrier", "user": {"id": "u1"}, "secret": "s3cret"}),
            ),
        ] {
            let secret = secret.clone();
            let sent = Credential::Application { credential, secret }.to_v3().unwrap();
            assert_eq!(sent["auth"]["identity"]["application_credential"], named);
            assert_eq!(sent["auth"].get("scope"), None);
        }
    }
}
