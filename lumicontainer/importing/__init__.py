"""Read files of other tools, and write a recipe and a layer of what they say."""
