// Package controller drives the real HorizontalController of Kubernetes v1.36, and of
// v1.37: the module in ../v1.37 compiles it with that version's code. The driver suits
// the additions of v1.37: resource versions and generations grow as in an API server,
// so no reconcile is skipped for a stale cache, and the controller's own handlers
// register and remove HPAs, whichever store it keeps them in.
package controller
