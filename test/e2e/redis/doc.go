// Package redis holds the tests of many services on one Redis, as processes: what
// they promise together when any of them, or Redis itself, is killed.
//
// # What is written and seen
//
// All use one kind of call, made so that each leaves a trace that
// no other leaves and each answer tells what it was decided on. The metric of every
// recommendation has a value of its own, so that the count recommended names the call
// in the target's history for good: the windows are an hour long, and within them no
// slot is used again. It always changes the count, so that it is pending until it is
// reported or the next call drops it. An answer with its explanation shows how many
// recommendations were there before and the highest of them, how many changes were
// applied, their sum, and the instant of the last. So a target is a list to which each
// call appends, and which each answer describes.
//
// # What is checked
//
//   - The account: each recommendation that was answered is in the history once; one
//     whose outcome the caller never learned is there once at most; nothing else is.
//   - The order, by porcupine: there is a sequence of all calls in which each took
//     effect between its beginning and its end and each answer is right. The model is
//     the list above, 30 lines that share nothing with the service.
//   - The replay: the calls in the order of the history that is there in the end, made
//     by the recommender alone, without store and service, give every answer and the
//     history itself, field by field.
//
// That the checks can fail is tested too, on records that were tampered with.
package redis
