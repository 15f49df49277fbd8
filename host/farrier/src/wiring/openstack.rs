//! OpenStack's services as the site sets them.

use anyhow::Result;
use settings::OpenStack;
use sources::openstack::{
    ApplicationCredential, Client, Credential, Identity, IdentityConfig, Interface, Limits, Member, Named,
};
use url::Url;

/// A client of one service of the catalogue ("object-store", "image"), in so many attempts a request.
pub(crate) fn client(access: &OpenStack, service: &str, attempts: u32) -> Result<Client> {
    Ok(Client::new(Identity::new(config(access, service, attempts)?)?))
}

/// Where to authenticate for that service, and as whom.
pub(crate) fn config(access: &OpenStack, service: &str, attempts: u32) -> Result<IdentityConfig> {
    let endpoint = match &access.endpoint {
        Some(url) => Some(url.as_str().parse::<Url>()?),
        // Where nobody authenticates there is no catalogue to look in.
        None if access.credential == settings::Credential::None => Some(access.auth_url.as_str().parse()?),
        None => None,
    };
    Ok(IdentityConfig {
        region: access.region.clone(),
        interface: match access.interface {
            settings::Interface::Public => Interface::Public,
            settings::Interface::Internal => Interface::Internal,
            settings::Interface::Admin => Interface::Admin,
        },
        endpoints: endpoint.into_iter().map(|url| (service.to_owned(), url)).collect(),
        ca: access.ca.clone(),
        insecure: !access.verify,
        limits: Limits {
            attempts,
            ..Limits::default()
        },
        ..IdentityConfig::new(access.auth_url.as_str(), credential(&access.credential))?
    })
}

fn credential(set: &settings::Credential) -> Credential {
    use settings::Credential as Set;
    match set {
        Set::Password {
            user,
            password,
            project,
        } => Credential::Password {
            user: member(user),
            password: password.clone(),
            project: member(project),
        },
        Set::Application { credential, secret } => Credential::Application {
            credential: match credential {
                settings::ApplicationCredential::Id(id) => ApplicationCredential::Id(id.clone()),
                settings::ApplicationCredential::Name { name, user } => ApplicationCredential::Name {
                    name: name.clone(),
                    user: member(user),
                },
            },
            secret: secret.clone(),
        },
        Set::V1 { user, key } => Credential::V1 {
            user: user.clone(),
            key: key.clone(),
        },
        Set::None => Credential::None,
    }
}

fn member(set: &settings::Member) -> Member {
    use settings::{Member as Set, Named as SetName};
    match set {
        Set::Id(id) => Member::Id(id.clone()),
        Set::Name { name, domain } => Member::Name {
            name: name.clone(),
            domain: match domain {
                SetName::Id(id) => Named::Id(id.clone()),
                SetName::Name(name) => Named::Name(name.clone()),
            },
        },
    }
}
