// Package stored serves callers that only poll, and send neither spec nor metrics. It stores
// specs and observations of targets beside their histories, and builds from both the request
// that such a caller would have sent.
//
// One decision serves all calls within the period of the spec. So frequent polls change
// nothing, and cost one round trip to the store. The service passes in the function that
// decides (Options.Recommend): authorization, the swap of the history and the engine are its
// own.
package stored
