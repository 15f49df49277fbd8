//! The routers over a real store, and the image listener over real sockets.

#[cfg(test)]
mod agents;
#[cfg(test)]
mod discovery;
#[cfg(test)]
mod images;
#[cfg(test)]
mod lab;
#[cfg(test)]
mod listeners;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod own;
#[cfg(test)]
mod ports;
#[cfg(test)]
mod shapes;
#[cfg(test)]
mod states;
