// Package fleet decides for a workload that runs in several clusters as one, and shares the count out.
//
// It is pure: the same record, call, instant and spec give the same next record and answer. It reads no
// clock, does no I/O and changes none of its arguments.
//
//	digest, err := fleet.NewDigest(now, &input, "west", spec.Version) // of the member that calls
//	record, answer, err := fleet.Step(now, &spec, &record, &fleet.Call{Member: "west", Digest: digest, ID: id})
//	// store the record if it is still the one that was read; then answer.Share is the member's.
//
// A member's call reduces its pods and metrics to a Digest: sums of integers (digest.go). The digests
// of all members add up to what the engine, package recommender, would compute from the list of all their
// pods (merge.go), so the fleet's count is the one that it decides for that union, in every field. A
// member that is silent keeps its share, and its pods count as pods without samples (state.go). The count
// is shared out by Webster's method with the least movement (split.go). Step puts these together and
// decides only if the last decision is a period old, whoever calls.
package fleet
