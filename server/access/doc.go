// Package access has the caller of a call: its identity (from package auth) and its grants
// (from package auth/policy).
//
//	ctx = access.WithSession(ctx, session)
//	err := access.Authorize(ctx, method, message)              // an interceptor, by the table of rights
//	err = access.CallerOf(ctx).Check(policy.Recommend, key) // what is decoded later
//
// A nil caller, within the process or while authentication is off, may do everything.
package access
