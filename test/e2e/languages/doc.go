// Package languages holds the clients of all languages to one behaviour: that of
// clients/setpoint. Its tests do the same with each of them, over gRPC and over REST, against
// real services and against one before which a front loses, delays, refuses and falsifies
// answers. What a client has to do is said to it by drivers/, a JSON object a line.
package languages
