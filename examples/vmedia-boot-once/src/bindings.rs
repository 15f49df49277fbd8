//! Generated from the contract.
wit_bindgen::generate!({
    path: "../../wit",
    world: "vmedia-plugin",
    pub_export_macro: false,
});
