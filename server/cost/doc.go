// Package cost limits the work that a message can cause, in proportion to its bytes.
//
// A few bytes can cause much work: an empty message within another takes two bytes
// encoded and hundreds as a Go value, and lists multiply with one another. So every
// message is checked before it is decoded, encoded (Wire) or as JSON (JSON), in one
// pass that allocates next to nothing:
//
//	var budget cost.Budget
//	budget.Reset(len(data))
//	if excess := cost.Of(descriptor).Wire(data, limits, &budget); excess != nil {
//		... // refuse: excess says which list is too long, or what takes the memory
//	}
//
// The maximum length of each list is defined once, by the rules of the .proto files
// (max_items, max_pairs) or by the server's settings, see Limits. Work that results
// from multiplying lists is charged to the Budget as it is done.
package cost
