// Package apierror has the errors that callers get: google.rpc.Status values with an
// ErrorInfo, the codes as the contract has them, and what is wrong with a request. What
// failed inside is mapped here and nowhere else; its text is for the log.
//
//	return apierror.OfStore(ctx, target, err)
//	return apierror.OverLimit("maxPods", most, "the request has more pods than this server takes in one request")
//
// It knows neither transport: over REST the gateway words the same values.
package apierror
