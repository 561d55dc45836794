// Package conversion converts between the contract's messages and the recommender's
// types: requests in, responses out. It decides nothing.
//
// Input refuses what it cannot read (quantities, duplicate names, metrics that are not
// in the spec), all at once. Package validation checks whether Kubernetes would accept
// a spec; the recommender can decide whatever this package can read.
package conversion
