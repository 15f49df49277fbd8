//! What a message is called where a profile does not word it otherwise: the Base registry (DSP8011).

use crate::profile::Meaning;

/// HTTP status, id in the Base registry, and words in which `%1` and `%2` stand for the arguments.
pub(super) fn standard(meaning: Meaning) -> (u16, &'static str, &'static str) {
    use Meaning as M;
    match meaning {
        M::Success | M::ResetRequired | M::ResetInProgress => (200, "Success", "The request completed successfully."),
        M::Busy => (
            503,
            "ServiceTemporarilyUnavailable",
            "The service is temporarily unavailable.",
        ),
        M::MalformedBody => (
            400,
            "MalformedJSON",
            "The request body could not be parsed as a JSON object.",
        ),
        M::MediaType => (
            415,
            "UnsupportedMediaType",
            "The request body must be application/json.",
        ),
        M::BodyTooLarge => (413, "RequestBodyTooLarge", "The request body is too large."),
        M::NoSession => (401, "NoValidSession", "There is no valid session."),
        M::WrongLogin => (
            401,
            "ResourceAtUriUnauthorized",
            "The user name or the password is wrong.",
        ),
        M::LoginDelayed => (
            401,
            "ResourceAtUriUnauthorized",
            "Logins are delayed after wrong passwords.",
        ),
        M::SessionsFull => (
            400,
            "CreateLimitReachedForResource",
            "The limit of this kind of resource has been reached.",
        ),
        M::Missing => (404, "ResourceMissingAtURI", "The resource at the URI %1 was not found."),
        M::NotAllowed => (
            405,
            "ActionNotSupported",
            "The method is not supported by the resource.",
        ),
        M::Precondition => (
            412,
            "PreconditionFailed",
            "The ETag supplied did not match the resource's.",
        ),
        M::PreconditionNeeded => (
            428,
            "PreconditionRequired",
            "A precondition header is required to change this resource.",
        ),
        M::NotAcceptable => (
            406,
            "HeaderInvalid",
            "The resource is not available in an acceptable encoding.",
        ),
        M::PropertyNotWritable => (
            400,
            "PropertyNotWritable",
            "The property %1 is read-only or unknown and cannot be assigned a value.",
        ),
        M::PropertyUnknown => (
            400,
            "PropertyUnknown",
            "The property %1 is not in the list of valid properties for the resource.",
        ),
        M::PropertyMissing => (
            400,
            "PropertyMissing",
            "The property %1 must be included in the request.",
        ),
        M::PropertyType => (
            400,
            "PropertyValueTypeError",
            "The value of the property %1 is of a type that the property cannot accept.",
        ),
        M::PropertyValue => (
            400,
            "PropertyValueNotInList",
            "The value %1 of the property %2 is not in the list of acceptable values.",
        ),
        M::ParameterUnknown => (
            400,
            "ActionParameterUnknown",
            "The action %1 was submitted with the unknown parameter %2.",
        ),
        M::ParameterMissing => (
            400,
            "ActionParameterMissing",
            "The action %1 requires the parameter %2 to be present in the request body.",
        ),
        M::ParameterType => (
            400,
            "ActionParameterValueTypeError",
            "The value of the parameter %1 of the action %2 is of a type that it cannot accept.",
        ),
        M::ParameterValue => (
            400,
            "ActionParameterValueNotInList",
            "The value %1 of the parameter %2 of the action %3 is not in the list of acceptable values.",
        ),
        M::ImageRefused => (
            400,
            "ActionParameterValueFormatError",
            "The value %1 of the parameter %2 of the action %3 is of a format that it cannot accept.",
        ),
        M::NotWritable => (
            400,
            "ActionParameterNotSupported",
            "The parameter %1 of the action %2 cannot be false.",
        ),
        M::Certificate => (400, "PropertyValueFormatError", "The certificate cannot be read."),
        M::Occupied => (400, "ResourceInUse", "The resource is in use and cannot be changed."),
        M::Idle => (400, "ActionNotSupported", "There is no media inserted."),
        M::ConsoleOnly => (400, "ActionNotSupported", "This slot belongs to the remote console."),
        M::Licence => (
            403,
            "InsufficientPrivilege",
            "The licence does not cover virtual media.",
        ),
        M::InPost => (503, "ResourceInStandby", "The server is in POST."),
        M::WrongState => (
            409,
            "ResourceInUse",
            "The server is not in a state in which %1 can be done.",
        ),
        M::LegacyMode => (
            400,
            "ActionNotSupported",
            "This is not possible in the boot mode of the server.",
        ),
    }
}

/// Whether the last argument is a property or parameter of the request.
pub(super) fn is_about_member(meaning: Meaning) -> bool {
    matches!(
        meaning,
        Meaning::PropertyUnknown
            | Meaning::PropertyNotWritable
            | Meaning::PropertyMissing
            | Meaning::PropertyType
            | Meaning::PropertyValue
            | Meaning::ParameterUnknown
            | Meaning::ParameterMissing
    )
}
