//! What a server boots over the network with iPXE: scripts, kernel lines, and where the files lie. Pure: no I/O, no clock;
//! the same inputs give the same bytes.
//!
//! The files lie as Ironic lays them out under its HTTP root, so that a DHCP server which was set up for Ironic goes on
//! working:
//!
//! | path | what |
//! |---|---|
//! | `boot.ipxe` | the site's entry: DHCP names it, it looks for the machine's own script |
//! | `pxelinux.cfg/52-54-00-12-34-56` | the script of the server with that card, the same as its node's `config` |
//! | `UUID/config` | the node's script |
//! | `UUID/deploy_kernel`, `UUID/deploy_ramdisk` | what boots the deploy or clean ramdisk |
//! | `UUID/kernel`, `UUID/ramdisk` | what boots an instance that has no boot loader on its disk |
//!
//! These names can be guessed by anybody on the network who knows a MAC address, so **no secret is ever in these files**: the
//! agent's token is handed out by lookup. `boot.ipxe` names the others by their whole URL; a node's script names its kernel
//! and ramdisk relative to itself, so it is the same whichever conductor or web server hands it out.
//!
//! ```
//! use image::SourceFile;
//! use model::{NodeId, Sha256};
//! use netboot::{Boot, KernelLine, NetbootPath, Pack, Pair};
//!
//! let node: NodeId = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123".parse()?;
//! let line = KernelLine::new(&[("ipa-api-url".into(), "http://10.1.0.1:6387".into())], "console=ttyS0 nofb")?;
//! let file = |byte| SourceFile { sha256: Sha256([byte; 32]), len: 1 << 20 };
//! let boot = Boot::Ramdisk(Pair { kernel: file(1), ramdisk: file(2), line, timeout: None });
//! let pack = Pack::new(node, &["52:54:00:12:34:56".parse()?], &boot)?;
//! assert!(pack.range(&NetbootPath::Card("52:54:00:12:34:56".parse()?)).is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod line;
mod pack;
mod path;
mod script;

pub use line::{KernelLine, LineError};
pub use pack::{Boot, Pack, PackError, PackedFile, Pair};
pub use path::{NetbootPath, NodeFile};
pub use script::BaseUrlError;
