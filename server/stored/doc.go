// Package stored answers callers that only poll, and send neither spec nor metrics. It keeps
// specs and observations of targets beside their histories,
// and makes of both the request that such a caller would have sent.
//
// A decision answers all calls within the period of the spec. So asking often
// changes nothing, and costs one round trip to the store. What makes a decision is handed
// in (Options.Recommend): authorization, the swap of the history and the engine are the
// service's own.
package stored
