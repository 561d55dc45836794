// Package conversion is the border between the contract's messages and the
// recommender's types: requests in, answers out, and nothing decided.
//
// Input refuses what cannot be read (quantities, names given twice, metrics that
// are not in the spec), all at once. Whether a spec is one that Kubernetes would
// accept is the business of package validation; what this package can read, the
// recommender can decide.
package conversion
