"""What torch calls: the backend, exported programs, operators of Tenon in torch."""
