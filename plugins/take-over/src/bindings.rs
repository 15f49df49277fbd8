//! Generated from the contract.
wit_bindgen::generate!({
    path: "../../wit",
    world: "take-over-plugin",
    pub_export_macro: false,
});
