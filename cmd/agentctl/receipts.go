package main

import agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"

// receipts are how far a message has come, at each of its recipients.
type receipts struct {
	req     *agentdv1.SendMessageRequest
	message string // its id; empty: it is not known to be accepted
	newest  map[string]*agentdv1.SendMessageResponse
}

// isNew takes a receipt, and tells whether it says more of its recipient than was known.
func (s *receipts) isNew(r *agentdv1.SendMessageResponse) bool {
	s.message = r.GetMessageId()
	if known, ok := s.newest[r.GetRecipient()]; ok && rank(r) <= rank(known) {
		return false
	}
	s.newest[r.GetRecipient()] = r
	return true
}

// complete tells whether the message has come as far as was asked for: a stream that ends before was cut. What was sent to
// all may have reached nobody.
func (s *receipts) complete() bool {
	until := reached(s.req.GetUntil())
	for recipient, newest := range s.newest {
		if recipient != everyone && rank(newest) < until {
			return false
		}
	}
	return s.message != ""
}

// failed tells whether a recipient will never get the message.
func (s *receipts) failed() bool {
	for _, newest := range s.newest {
		if lost(newest.GetState()) {
			return true
		}
	}
	return false
}

// lost tells whether a receipt is the end of a message that nobody took.
func lost(s agentdv1.ReceiptState) bool {
	switch s {
	case agentdv1.ReceiptState_RECEIPT_STATE_UNDELIVERABLE, agentdv1.ReceiptState_RECEIPT_STATE_EXPIRED,
		agentdv1.ReceiptState_RECEIPT_STATE_SUPERSEDED:
		return true
	default:
		return false
	}
}

// rank orders the receipts of a message as it comes along; its ends come last. What a client has acknowledged, which stands in
// no transcript, comes no further.
func rank(r *agentdv1.SendMessageResponse) int {
	if r.GetState() == agentdv1.ReceiptState_RECEIPT_STATE_DELIVERED && r.GetSeq() == 0 {
		return reached(agentdv1.ReceiptState_RECEIPT_STATE_ANSWERED)
	}
	return reached(r.GetState())
}

// reached orders the states of a message as it comes along.
func reached(s agentdv1.ReceiptState) int {
	switch s {
	case agentdv1.ReceiptState_RECEIPT_STATE_UNSPECIFIED:
		return 0
	case agentdv1.ReceiptState_RECEIPT_STATE_ACCEPTED:
		return 1
	case agentdv1.ReceiptState_RECEIPT_STATE_WAKING:
		return 2
	case agentdv1.ReceiptState_RECEIPT_STATE_DELIVERED:
		return 3
	default:
		return 4
	}
}
