// Package restjson is the JSON side of the REST gateway: it decodes request bodies into protobuf
// messages, strictly and with errors that a person with curl can act on, and encodes responses in
// one stable form.
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
// It accepts what protojson accepts, with two differences that follow the Kubernetes API: a number
// is accepted where a quantity string is expected ("cpu": 0.5), and an explicit empty list of
// scaling policies is refused. A valid body costs one pass of protojson and one search for a word;
// only a body that is refused, or has one of those two oddities, is walked a second time against
// the message's descriptor.
//
// The package does not limit the size of a body (see http.MaxBytesReader), nor check values by the
// validation rules of the .proto files. It supports messages of proto3: it ignores extensions and
// groups.
package restjson
