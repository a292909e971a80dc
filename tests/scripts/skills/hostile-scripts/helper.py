NAME = "another helper"
