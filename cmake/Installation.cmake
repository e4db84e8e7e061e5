# Filled by the deploy work: bin/, lib/ and share/latentd/demo-model.
