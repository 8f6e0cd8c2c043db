package main

import agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"

// receipts are how far a message has come, at each of its recipients.
type receipts struct {
	req     *agentdv1.SendMessageRequest
	message string // its id; empty: it is not known to be accepted
	newest  map[string]agentdv1.ReceiptState
}

// isNew takes a receipt, and tells whether it says more of its recipient than was known.
func (s *receipts) isNew(r *agentdv1.SendMessageResponse) bool {
	s.message = r.GetMessageId()
	if known, ok := s.newest[r.GetRecipient()]; ok && rank(r.GetState()) <= rank(known) {
		return false
	}
	s.newest[r.GetRecipient()] = r.GetState()
	return true
}

// complete tells whether the message has come as far as was asked for: a stream that ends before was cut. What was sent to
// all may have reached nobody.
func (s *receipts) complete() bool {
	for recipient, state := range s.newest {
		if recipient != everyone && rank(state) < rank(s.req.GetUntil()) {
			return false
		}
	}
	return s.message != ""
}

// failed tells whether a recipient will never get the message.
func (s *receipts) failed() bool {
	for _, state := range s.newest {
		if lost(state) {
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

// rank orders the states of a message as it comes along; its ends come last.
func rank(s agentdv1.ReceiptState) int {
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
