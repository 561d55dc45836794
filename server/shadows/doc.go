// Package shadows lets other specs of a target decide beside the one in use, and says how they differ. It knows
// neither a store nor a caller: a record carries what it keeps.
//
// Histories belong to specs, not to roles: a decision goes on with the history of its spec, whoever had that last.
// So a change of the stored spec alone promotes a shadow, and the next decision, whichever instance makes it, finds
// the shadow's windows, and leaves the former spec its own, in the same swap.
//
//	s := shadows.Open(&known, hash, &call)
//	decision, history := recommend(&s.Basis)
//	next.Shadows = s.Decide(&call)
package shadows
