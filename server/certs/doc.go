// Package certs builds TLS configurations from files that may be replaced at any time: by
// cert-manager, by a Kubernetes Secret whose links are swapped, by hand.
//
//	source, err := certs.New(certs.Options{
//		CertFile: "tls.crt", KeyFile: "tls.key",
//		CAFile: "ca.crt", ClientAuth: certs.Require,
//	})
//	…
//	go source.Run(ctx)
//	config, err := source.ServerConfig()
//	…
//	grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
//
// New connections use the current files; open ones keep what they started with, even if
// the certificate of the other side expires or is revoked meanwhile, unless their user
// calls Source.CheckClient with each call. Files that are invalid or do not match change
// nothing: the previous ones remain in use, and OnChange and Status report the error.
//
// TLS 1.2 is the oldest supported version; 1.3 is used if both sides support it. Cipher
// suites, curves and their order are Go's, which its releases keep up to date. ALPN offers
// h2 and http/1.1.
//
// Where client certificates are verified, sessions are not resumed. Resumption skips the
// verification, so that a client whose CA was removed, or whose certificate was revoked,
// could reconnect while its ticket is valid. The price is one more signature per
// connection, and gRPC's clients have few connections.
package certs
