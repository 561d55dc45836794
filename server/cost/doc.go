// Package cost bounds what a message makes the server do, by how many bytes it has.
//
// A few bytes can ask for much: an empty message within another takes two bytes
// encoded and hundreds as a Go value, and lists multiply with one another. So a
// message is looked over before anything is made of it, encoded (Wire) or as JSON
// (JSON), in one pass that makes next to nothing:
//
//	var budget cost.Budget
//	budget.Reset(len(data))
//	if excess := cost.Of(descriptor).Wire(data, limits, &budget); excess != nil {
//		... // refuse: excess says which list is too long, or what takes the memory
//	}
//
// How many elements a list may have is said once, by the rules of the .proto files
// (max_items, max_pairs), or by the server's settings, see Limits. What follows from
// lists multiplying is spent from the Budget as it is done.
package cost
