// Package scalers is KEDA's own client of external scalers: external_scaler.go and scaler.go
// are KEDA's, byte by byte (Apache License 2.0), which TestTheCodeIsKEDAs compares with the
// module. What they import of KEDA is the module itself.
//
// KEDA's package of the same name can't be imported as a whole: its other scalers import some
// seventy clients of other systems, together 3,255 packages (those of this one are 1,054) of 1.7
// GB of modules; 198 s of processor time did not compile them.
package scalers

// externalMetricType is defined beside another scaler there (azure_queue_scaler.go).
const externalMetricType = "External"
