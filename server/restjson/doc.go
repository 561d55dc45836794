// Package restjson is the JSON side of the REST gateway: it decodes request
// bodies into protobuf messages, strictly and with errors that a person with
// curl can act on, and encodes answers in one stable form.
//
//	mux := runtime.NewServeMux(
//		runtime.WithMarshalerOption(runtime.MIMEWildcard, &restjson.Marshaler{}),
//		runtime.WithMiddlewares(restjson.Middleware),
//		runtime.WithErrorHandler(func(ctx context.Context, …, r *http.Request, err error) {
//			var invalid *restjson.Error
//			if errors.As(restjson.DecodeError(r), &invalid) {
//				… // INVALID_ARGUMENT, a BadRequest.FieldViolation for each of invalid.Violations
//			}
//		}),
//	)
//
// What decodes is what protojson decodes, with two differences, both because
// the Kubernetes API does so: a number may stand where a quantity string is
// expected ("cpu": 0.5), and an explicit empty list of scaling policies is
// refused. A good body costs one pass of protojson and one search for a word;
// only a body that is refused, or has one of those two oddities, is walked a
// second time against the message's descriptor.
//
// The package does not bound the size of a body (see http.MaxBytesReader), nor
// check what the .proto files' validation rules say of values. Messages are
// those of proto3: extensions and groups are not looked into.
package restjson
