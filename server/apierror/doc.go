// Package apierror creates the errors for callers: google.rpc.Status values with an ErrorInfo, the
// contract's codes, and a request's violations. Only this package maps internal errors; their texts
// are for the log.
//
//	return apierror.OfStore(ctx, target, err)
//	return apierror.OverLimit("maxPods", most, "the request has more pods than this server takes in one request")
//
// It is independent of the transport: over REST the gateway turns the same values into JSON.
package apierror
