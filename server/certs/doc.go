// Package certs makes TLS configurations of files that may be replaced while they are
// used: by cert-manager, by a Kubernetes Secret whose links are swapped, by hand.
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
// New connections meet what the files say; open ones go on with what they began with, also
// if the certificate of the other side expires or is revoked meanwhile, unless their user
// asks Source.CheckClient with each call. Files that are
// broken, or do not fit each other, change nothing: what was loaded before stays, and
// OnChange and Status tell what is wrong.
//
// TLS 1.2 is the oldest version that is spoken, and 1.3 what both sides speak if they can.
// Cipher suites, curves and their order are Go's, which its releases keep up to date.
// ALPN offers h2 and http/1.1.
//
// Where client certificates are looked at, sessions are not resumed. Resuming one skips
// looking at the certificate anew, so that a client whose CA was taken away, or whose
// certificate was revoked, could come back as long as its ticket is good. The price
// is one more signature per connection, and gRPC's clients have few connections.
package certs
