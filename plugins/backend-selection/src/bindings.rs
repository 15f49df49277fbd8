//! Generated from the contract.
wit_bindgen::generate!({
    path: "../../wit",
    world: "backend-selection-plugin",
    pub_export_macro: false,
});
