// Package access says what the caller of one call may do: who it is (package auth finds out),
// and what the policy grants (package auth/policy).
//
//	ctx = access.WithSession(ctx, session)
//	err := access.CallerOf(ctx).Check(policy.Recommend, key)
//
// A nil caller, in the process or where authentication is off, may do everything.
package access
