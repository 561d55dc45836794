// Package controller drives the real HorizontalController of Kubernetes v1.36, and of
// v1.37: the module in ../v1.37 compiles it with that version's code. What v1.37 has
// beside the code of v1.36 is in the controller, and the driver suits both: resource
// versions and generations grow as an API server has them grow, so no reconcile is
// skipped for a stale cache, and HPAs are registered and forgotten by the controller's
// own handlers, whichever store it keeps them in.
package controller
